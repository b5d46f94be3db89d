// Which files a checkpoint has, and who writes what.
#include "executor/core/checkpoint_files.h"

#include "plan/plan.h"
#include "test/plan/example.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <set>

using namespace maestro;
using namespace maestro::executor;

namespace {

struct Planned {
  explicit Planned(const plan::PlanBuilder &builder)
      : plan(*plan::Plan::fromBytes(plan::test::packUnverified(const_cast<plan::PlanBuilder &>(builder).plan()))),
        topology(plan) {}
  plan::Plan plan;
  Topology topology;
};

/// Every tensor once, of a station of the file's writer that binds it.
void expectWhole(const Planned &planned, const std::vector<SavedSet> &sets) {
  for (const SavedSet &set : sets) {
    std::set<std::string> names;
    std::set<uint32_t> writers;
    for (const SavedFile &file : set.files) {
      EXPECT_TRUE(writers.insert(file.writer).second) << set.name << ": rank " << file.writer << " has two files";
      for (const SavedTensor &tensor : file.tensors) {
        EXPECT_TRUE(names.insert(tensor.info.name).second) << tensor.info.name << " is saved twice";
        EXPECT_EQ(planned.topology.stations[tensor.source].rank, file.writer) << tensor.info.name;
        bool isBound = false;
        for (const plan::fb::Binding *binding : *planned.topology.executable(tensor.source).bindings())
          isBound |= binding->kind() == tensor.kind && binding->index() == tensor.parameter;
        EXPECT_TRUE(isBound) << tensor.info.name;
      }
    }
  }
}

std::map<std::string, std::set<std::string>> namesBySet(const std::vector<SavedSet> &sets) {
  std::map<std::string, std::set<std::string>> names;
  for (const SavedSet &set : sets)
    for (const SavedFile &file : set.files)
      for (const SavedTensor &tensor : file.tensors)
        names[set.name].insert(tensor.info.name);
  return names;
}

TEST(CheckpointFiles, OneFileASetWhereOneRankHoldsIt) {
  Planned planned(plan::test::exampleBuilder());
  std::vector<SavedSet> sets = checkpointSets(planned.plan, planned.topology, 1);
  ASSERT_EQ(sets.size(), 2u) << "the teacher is frozen";
  for (const SavedSet &set : sets) {
    ASSERT_EQ(set.files.size(), 1u);
    EXPECT_EQ(set.files[0].name, set.name + ".safetensors");
    EXPECT_FALSE(set.hasIndex());
  }
  EXPECT_EQ(sets.back().name, "optimizer");
  EXPECT_FALSE(sets.front().files[0].tensors.empty());
  expectWhole(planned, sets);
}

TEST(CheckpointFiles, ReplicasShareASetThatIsLargeEnough) {
  plan::PlanBuilder builder = plan::test::exampleBuilder();
  plan::test::addReplica(builder);
  Planned planned(builder);
  std::vector<SavedSet> together = checkpointSets(planned.plan, planned.topology, 1);
  for (const SavedSet &set : together)
    EXPECT_EQ(set.files.size(), 1u) << "it is small";
  std::vector<SavedSet> shared = checkpointSets(planned.plan, planned.topology, 1, /*leastFileBytes=*/1);
  expectWhole(planned, shared);
  EXPECT_EQ(namesBySet(shared), namesBySet(together));
  const SavedSet &optimizer = shared.back();
  ASSERT_EQ(optimizer.files.size(), 2u);
  EXPECT_EQ(optimizer.files[1].name, "optimizer-00002-of-00002.safetensors");
  uint64_t one = optimizer.files[0].bytes(), other = optimizer.files[1].bytes(), largest = 0;
  for (const SavedFile &file : optimizer.files)
    for (const SavedTensor &tensor : file.tensors)
      largest = std::max(largest, byteCount(tensor.info));
  EXPECT_LE(std::max(one, other) - std::min(one, other), 2 * largest);
}

TEST(CheckpointFiles, AnIndexNamesEveryTensorsFile) {
  plan::PlanBuilder builder = plan::test::exampleBuilder();
  plan::test::addReplica(builder);
  Planned planned(builder);
  SavedSet set = checkpointSets(planned.plan, planned.topology, 1, 1).back();
  ASSERT_TRUE(set.hasIndex());
  nlohmann::json index = nlohmann::json::parse(set.index());
  uint64_t bytes = 0;
  size_t count = 0;
  for (const SavedFile &file : set.files) {
    bytes += file.bytes();
    count += file.tensors.size();
    for (const SavedTensor &tensor : file.tensors)
      EXPECT_EQ(index["weight_map"][tensor.info.name], file.name);
  }
  EXPECT_EQ(index["weight_map"].size(), count);
  EXPECT_EQ(index["metadata"]["total_size"], bytes);
}

} // namespace
