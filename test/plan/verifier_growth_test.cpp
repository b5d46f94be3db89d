// What verifying costs: time and memory are linear in the file, whatever it names. Each kind of plan comes in three
// sizes; processor time and the heap's peak are held against the file's bytes.
#include "base/dtype.h"
#include "test/allocations/allocations.h"
#include "test/plan/example.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

namespace maestro::plan {
namespace {

int64_t processorNs() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

struct Cost {
  double bytes, ns, heap;
};

/// Valid or not.
Cost verifying(const std::vector<uint8_t> &bytes) {
  (void)maestro::test::takePeakBytes();
  int64_t before = maestro::test::takePeakBytes(), start = processorNs();
  auto plan = Plan::fromBytes(bytes);
  Cost cost{static_cast<double>(bytes.size()), static_cast<double>(processorNs() - start),
            static_cast<double>(maestro::test::takePeakBytes() - before)};
  std::printf("  %.0f bytes, %s: %.1f ms, heap %.2f times the file\n", cost.bytes,
              plan ? "accepted" : std::string(plan.status().message()).c_str(), cost.ns * 1e-6, cost.heap / cost.bytes);
  return cost;
}

/// The student's calls, and buffers, again and again.
std::vector<uint8_t> manyCalls(uint32_t count) {
  PlanBuilder builder = test::exampleBuilder();
  fb::ExecutableT &student = *builder.plan().executables[test::kStudent];
  for (auto &program : student.programs)
    if (program->kind == fb::ProgramKind::Forward)
      for (uint32_t i = 0; i < count; ++i) {
        student.buffers.push_back(std::make_unique<fb::BufferT>(*student.buffers[21]));
        auto call = std::make_unique<fb::CallT>(*program->calls[0]);
        call->outputs = {static_cast<uint32_t>(student.buffers.size() - 1)};
        program->calls.insert(program->calls.begin(), std::move(call));
      }
  return test::packUnverified(builder.plan());
}

/// Buffers and expressions, in hundreds of largest micro-batches.
std::vector<uint8_t> manyCorners(uint32_t count) {
  PlanBuilder builder = test::exampleBuilder();
  fb::ExecutableT &student = *builder.plan().executables[test::kStudent];
  student.bounds[0]->value = int64_t{1} << 20;
  student.peak_bytes = uint64_t{1} << 46;
  builder.plan().machine->memory_bytes = 0;
  for (auto &buffer : student.buffers)
    if (buffer->region >= 5) { // Room for so many samples.
      buffer->offset <<= 22;
      bool isFixed = std::all_of(buffer->shape.begin(), buffer->shape.end(),
                                 [&](uint32_t dim) { return builder.plan().exprs[dim].op() == fb::DimOp::Constant; });
      buffer->bytes <<= isFixed ? 0 : 22;
    }
  for (uint32_t region = 5; region < student.regions.size(); ++region)
    student.regions[region]->bytes <<= 22;
  uint32_t last = 0;
  for (uint32_t i = 0; i < count; ++i) {
    last = builder.dim(fb::DimOp::Add, last, builder.constant(i));
    student.buffers.push_back(std::make_unique<fb::BufferT>(*student.buffers[11]));
  }
  return test::packUnverified(builder.plan());
}

/// A field for every other one's sizes.
std::vector<uint8_t> manyOwnPositions(uint32_t count) {
  PlanBuilder builder = test::exampleBuilder();
  for (uint32_t i = 0; i < count; ++i) {
    builder.plan().fields.push_back(std::make_unique<fb::FieldT>(*builder.plan().fields[0]));
    fb::FieldT &field = *builder.plan().fields.back();
    field.name = "positions" + std::to_string(i);
    field.marks.clear();
    field.index_limit = 0;
    field.own_positions = true;
  }
  return test::packUnverified(builder.plan());
}

/// As many edges as executables, which all look at them.
std::vector<uint8_t> manyEdges(uint32_t count) {
  PlanBuilder builder = test::exampleBuilder();
  fb::PlanT &plan = builder.plan();
  plan.sections[0]->layout->stages = count + 1;
  for (uint32_t i = 1; i <= count; ++i) {
    plan.edges.push_back(std::make_unique<fb::EdgeT>(*plan.edges[0]));
    plan.edges.back()->name = "edge" + std::to_string(i);
    plan.edges.back()->producer_stage = i;
    auto executable = std::make_unique<fb::ExecutableT>(*plan.executables[0]);
    executable->stage = i;
    executable->bindings[2]->index = i;
    plan.executables.insert(plan.executables.begin() + i, std::move(executable));
    plan.stations.push_back(std::make_unique<fb::StationT>(*plan.stations[0]));
    plan.stations.back()->executable = i;
  }
  plan.stations[1]->executable = count + 1; // The student, which lacks their rings.
  return test::packUnverified(plan);
}

/// One name of the greatest length, for all kernels.
std::vector<uint8_t> sharedNames(uint32_t count) {
  flatbuffers::FlatBufferBuilder buffer;
  PlanBuilder example = test::exampleBuilder();
  fb::PlanT &plan = example.plan();
  auto name = buffer.CreateString(std::string(4096, 'x'));
  auto kernels = buffer.CreateVector(std::vector(count, name));
  auto none = buffer.CreateVectorOfStrings(std::vector<std::string>());
  auto empty = [&]<typename T>(T *) { return buffer.CreateVector(std::vector<flatbuffers::Offset<T>>()); };
  auto file = fb::CreatePlan(
      buffer, 1, 0, name, name, 0, empty((fb::Symbol *)nullptr), buffer.CreateVectorOfStructs(plan.exprs.data(), 0),
      empty((fb::Field *)nullptr), empty((fb::SourceFile *)nullptr), empty((fb::Component *)nullptr),
      empty((fb::Parameter *)nullptr), kernels, none, empty((fb::AttributeList *)nullptr),
      empty((fb::Section *)nullptr), empty((fb::Edge *)nullptr), empty((fb::Executable *)nullptr),
      empty((fb::Station *)nullptr), empty((fb::Rank *)nullptr), fb::CreateMachine(buffer, plan.machine.get()),
      empty((fb::Loss *)nullptr), fb::CreateTraining(buffer, plan.training.get()), 0, empty((fb::Decision *)nullptr));
  fb::FinishPlanBuffer(buffer, file);
  return {buffer.GetBufferPointer(), buffer.GetBufferPointer() + buffer.GetSize()};
}

struct Kind {
  const char *name;
  std::vector<uint8_t> (*make)(uint32_t count);
  uint32_t smallest;
};
const Kind kKinds[] = {{"calls", manyCalls, 5000},
                       {"corners", manyCorners, 500},
                       {"ownPositions", manyOwnPositions, 4000},
                       {"edges", manyEdges, 500},
                       {"sharedNames", sharedNames, 20000}};

class VerifierGrowth : public testing::TestWithParam<Kind> {};

/// All that may be looked at is some 2^26 things, and 32 for every byte; a look takes a few nanoseconds.
TEST_P(VerifierGrowth, IsLinearInTheFile) {
  constexpr double kMostNs = 2e9, kMostNsOfByte = 400, kMostHeapOfByte = 16, kMostHeap = 1 << 20;
  for (uint32_t size : {1, 2, 4}) {
    Cost cost = verifying(GetParam().make(size * GetParam().smallest));
    EXPECT_LT(cost.ns, kMostNs + kMostNsOfByte * cost.bytes);
    EXPECT_LT(cost.heap, kMostHeap + kMostHeapOfByte * cost.bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(All, VerifierGrowth, testing::ValuesIn(kKinds),
                         [](const auto &info) { return std::string(info.param.name); });

/// A real plan's time, not just a bound on it.
TEST(VerifierGrowth, FourTimesTheCallsTakeFourTimesAsLong) {
  Cost small = verifying(manyCalls(10000)), large = verifying(manyCalls(40000));
  EXPECT_LT(large.ns / large.bytes, 2 * small.ns / small.bytes);
  EXPECT_LT(large.heap / large.bytes, 1.5 * small.heap / small.bytes);
}

} // namespace
} // namespace maestro::plan
