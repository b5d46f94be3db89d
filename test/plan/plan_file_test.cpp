// Plan files: loading what is right, refusing what is not, writing as a whole or not at all.
#include "plan/plan.h"
#include "plan/plan_generated.h"
#include "test/plan/example.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace maestro::plan {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class PlanFile : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("maestro_plan_test." + std::to_string(getpid()));
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  std::string path(const std::string &name) const { return (folder / name).string(); }

  std::string write(const std::string &name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

  static std::string messageOf(const std::string &path) {
    auto plan = Plan::load(path);
    EXPECT_FALSE(plan.isOk());
    EXPECT_EQ(plan.status().exitStatus(), 1);
    return plan.isOk() ? "" : std::string(plan.status().message());
  }

  fs::path folder;
};

TEST_F(PlanFile, writtenAndLoadedItIsTheSame) {
  auto bytes = test::exampleBytes();
  ASSERT_TRUE(writePlan(bytes, path("a.mpl")).isOk());
  auto plan = Plan::load(path("a.mpl"));
  ASSERT_TRUE(plan.isOk()) << plan.status().message();
  EXPECT_EQ((*plan)->name()->str(), "example");
  EXPECT_EQ(plan->folder(), folder.string());
  EXPECT_EQ(plan->hash(), hashBytes(bytes));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), plan->bytes().begin(), plan->bytes().end()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1) << "nothing is left beside it";
}

TEST_F(PlanFile, aFileThatCannotBeWrittenLeavesNothing) {
  auto bytes = test::exampleBytes();
  Status status = writePlan(bytes, path("nowhere/a.mpl"));
  EXPECT_EQ(status.exitStatus(), 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nowhere/a.mpl"));
  fs::create_directories(folder / "taken.mpl" / "inside");
  EXPECT_FALSE(writePlan(bytes, path("taken.mpl")).isOk());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
}

TEST_F(PlanFile, whatIsNoPlanIsRefused) {
  EXPECT_THAT(messageOf(path("missing.mpl")), HasSubstr("missing.mpl': cannot be opened: No such file"));
  EXPECT_THAT(messageOf(folder.string()), HasSubstr("is not a file"));
  EXPECT_THAT(messageOf(write("empty.mpl", "")), HasSubstr("the file is empty"));
  EXPECT_THAT(messageOf(write("short.mpl", "abc")), HasSubstr("not a Maestro plan"));
  EXPECT_THAT(messageOf(write("foreign.mpl", std::string(5000, 'x'))), HasSubstr("not a Maestro plan"));
  EXPECT_THAT(messageOf(write("header.mpl", "\xff\xff\xff\x7fMPL1")), HasSubstr("damaged"));
}

TEST_F(PlanFile, everyPrefixIsRefused) {
  auto bytes = test::exampleBytes();
  for (size_t length = 0; length < bytes.size(); length += length < 200 ? 1 : 37) {
    auto plan = Plan::fromBytes({bytes.data(), length});
    EXPECT_FALSE(plan.isOk()) << length;
  }
}

TEST_F(PlanFile, anotherMajorVersionIsRefusedByName) {
  PlanBuilder builder = test::exampleBuilder();
  builder.plan().version_major = 2;
  builder.plan().version_minor = 3;
  builder.plan().training->lr = -1; // Another version may mean anything by the rest.
  flatbuffers::FlatBufferBuilder buffer;
  fb::FinishPlanBuffer(buffer, fb::Plan::Pack(buffer, &builder.plan()));
  auto plan = Plan::fromBytes({buffer.GetBufferPointer(), buffer.GetSize()});
  ASSERT_FALSE(plan.isOk());
  EXPECT_THAT(std::string(plan.status().message()), HasSubstr("the plan has format 2.3, and this program reads 1.x"));
}

TEST_F(PlanFile, aNewerMinorVersionIsRead) {
  PlanBuilder builder = test::exampleBuilder();
  builder.plan().version_minor = 9;
  EXPECT_TRUE(builder.finish().isOk());
}

TEST(Hash, isStableAndSensitive) {
  std::vector<uint8_t> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<uint8_t>(i);
  // Stored in checkpoints: these values never change.
  EXPECT_EQ(hashBytes({}), 8203627883128763089u);
  EXPECT_EQ(hashBytes(bytes), 1899767661016873795u);
  uint64_t all = hashBytes(bytes);
  for (uint8_t &byte : bytes) {
    byte ^= 0x80;
    EXPECT_NE(hashBytes(bytes), all);
    byte ^= 0x80;
  }
}

} // namespace
} // namespace maestro::plan
