// Limits of control groups, in files as the kernel shows them.
#include "base/machine_memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace maestro;

namespace {

constexpr uint64_t kNone = ~uint64_t{0};

class ControlGroups : public testing::Test {
protected:
  ControlGroups() {
    char name[] = "/tmp/maestro-groups-XXXXXX";
    root = ::mkdtemp(name);
  }
  ~ControlGroups() override { std::filesystem::remove_all(root); }

  void write(const std::string &file, const std::string &text) {
    std::filesystem::path path = root + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string root;
};

TEST_F(ControlGroups, TheLeastLimitOnTheWayCounts) {
  write("memory.max", "max\n");
  write("job/memory.max", "1000\n");
  write("job/step/memory.max", "max\n");
  EXPECT_EQ(controlGroupLimit("0::/job/step\n", root), 1000u);
  write("job/step/memory.max", "900\n");
  EXPECT_EQ(controlGroupLimit("0::/job/step\n", root), 900u);
  EXPECT_EQ(controlGroupLimit("0::/other\n", root), kNone);
}

TEST_F(ControlGroups, AContainerSeesItsOwnGroupAsTheRoot) {
  write("memory.max", "800\n");
  EXPECT_EQ(controlGroupLimit("0::/\n", root), 800u);
  EXPECT_EQ(controlGroupLimit("0::/not/seen/here\n", root), 800u);
}

TEST_F(ControlGroups, VersionOneHasAFolderOfItsOwn) {
  write("memory/docker/1/memory.limit_in_bytes", "700\n");
  EXPECT_EQ(controlGroupLimit("5:devices:/x\n4:memory:/docker/1\n0::/\n", root), 700u);
  EXPECT_EQ(controlGroupLimit("4:cpu,memory:/docker/1\n", root), 700u);
  EXPECT_EQ(controlGroupLimit("not a line\n4:memory\n", root), kNone);
}

TEST(MachineMemory, IsSome) {
  EXPECT_GT(usableMemoryBytes(), 0u);
  EXPECT_LT(usableMemoryBytes(), uint64_t{1} << 50);
}

} // namespace
