// Programs as graphs of launches, on the fake driver: which become some, that results are the same bits, and that
// launching allocates nothing.
#include "executor/device/cuda/cuda_device.h"
#include "test/allocations/allocations.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <vector>

using namespace maestro;
using namespace maestro::executor;

namespace {

constexpr int64_t kCount = 1000;
constexpr uint64_t kBytes = kCount * sizeof(float);

/// Graphs that the driver has launched so far.
uint64_t graphLaunches() {
  auto counter = reinterpret_cast<uint64_t (*)()>(
      ::dlsym(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "maestroFakeCudaGraphLaunches"));
  return counter ? counter() : 0;
}

class LaunchGraphsTest : public testing::Test {
protected:
  void open(const char *mode) {
    if (mode)
      ::setenv("MAESTRO_CUDA_GRAPHS", mode, 1);
    else
      ::unsetenv("MAESTRO_CUDA_GRAPHS");
    auto made = createCudaDevice({});
    ASSERT_TRUE(made.isOk()) << made.status().message();
    device = std::move(*made);
    x = *device->allocate(8 * kBytes, "x"); // Eight sets of values.
    y = *device->allocate(kBytes, "y");
    std::vector<float> ones(kCount, 1);
    device->write(Queue::Compute, y, ones.data(), kBytes);
    ASSERT_TRUE(device->drain().isOk());
  }
  /// x = 2·x + y, over and over: `calls` of each.
  std::unique_ptr<PreparedProgram> prepare(size_t calls) {
    std::array<int64_t, 1> shape = {kCount};
    kernels::TensorType type(DType::F32, shape);
    std::vector<CallDescription> program;
    for (size_t i = 0; i < 2 * calls; ++i) {
      CallDescription &call = program.emplace_back();
      call.kernel = "add";
      call.scope = "test";
      call.inputTypes = {type, type};
      call.outputTypes = {type};
      call.inputs = {{0, 0}, {i % 2 ? 1u : 0u, 0}};
      call.outputs = {{0, 0}};
    }
    auto prepared = device->prepare(program);
    EXPECT_TRUE(prepared.isOk()) << prepared.status().message();
    return std::move(*prepared);
  }
  Address xOf(uint64_t set) const { return x + set * kBytes; }
  void launch(const PreparedProgram &program, uint64_t set) {
    std::array<Address, 2> bases = {xOf(set), y};
    device->launch(program, bases, 0);
  }
  std::vector<float> values() {
    std::vector<float> found(8 * kCount);
    device->read(Queue::Compute, found.data(), x, 8 * kBytes);
    EXPECT_TRUE(device->drain().isOk());
    return found;
  }

  std::unique_ptr<Device> device;
  Address x, y;
};

TEST_F(LaunchGraphsTest, TheSameBitsAsCallByCall) {
  std::vector<float> found[2];
  for (int i = 0; i < 2; ++i) {
    open(i == 0 ? "never" : "always");
    auto program = prepare(3);
    uint64_t before = graphLaunches();
    for (uint64_t round = 0; round < 4; ++round)
      for (uint64_t set = 0; set <= round; ++set)
        launch(*program, set);
    found[i] = values();
    // Sets come 4, 3, 2 and 1 times, and each is recorded the second time.
    EXPECT_EQ(graphLaunches() - before, i == 0 ? 0u : 3u + 2u + 1u);
    device.reset(); // Before what it runs.
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0][0], 4095); // x = 2·x + 1, twelve times.
}

TEST_F(LaunchGraphsTest, ManySmallCallsBecomeGraphsAndFewDoNot) {
  open(nullptr);
  auto few = prepare(1), many = prepare(2);
  uint64_t before = graphLaunches();
  for (int i = 0; i < 3; ++i)
    launch(*few, 0);
  ASSERT_TRUE(device->drain().isOk());
  EXPECT_EQ(graphLaunches() - before, 0u);
  for (int i = 0; i < 3; ++i)
    launch(*many, 1);
  ASSERT_TRUE(device->drain().isOk());
  EXPECT_EQ(graphLaunches() - before, 2u);
}

TEST_F(LaunchGraphsTest, MorePlacesThanAreKeptAreLaunchedCallByCall) {
  open("always");
  auto program = prepare(2);
  auto extra = *device->allocate(64 * kBytes, "more sets");
  uint64_t before = graphLaunches();
  for (int round = 0; round < 3; ++round)
    for (uint64_t set = 0; set < 32; ++set) {
      std::array<Address, 2> bases = {extra + set * kBytes, y};
      device->launch(*program, bases, 0);
    }
  ASSERT_TRUE(device->drain().isOk());
  EXPECT_EQ(graphLaunches() - before, 2u * 16);
}

TEST_F(LaunchGraphsTest, HotCallsAllocateNothing) {
  for (const char *mode : {"never", "always"}) {
    open(mode);
    auto program = prepare(4);
    std::vector<float> memory(8 * kCount);
    auto step = [&] {
      device->write(Queue::Receive, xOf(0), memory.data(), kBytes);
      device->await(Queue::Compute, device->record(Queue::Receive));
      for (uint64_t set = 0; set < 3; ++set)
        launch(*program, set);
      device->copy(Queue::Compute, xOf(6), xOf(1), kBytes);
      device->fillZero(Queue::Compute, xOf(7), kBytes);
      std::array<Address, 2> parts = {xOf(1), xOf(2)};
      device->sum(Queue::Compute, xOf(5), parts, kCount);
      device->read(Queue::Compute, memory.data(), x, 8 * kBytes);
      EXPECT_TRUE(device->wait(device->record(Queue::Compute)).isOk());
    };
    for (int i = 0; i < 3; ++i) // Graphs are recorded the second time.
      step();
    int64_t before = maestro::test::allocations();
    for (int i = 0; i < 5; ++i)
      step();
    EXPECT_GT(before, 0); // They are counted.
    EXPECT_EQ(maestro::test::allocations() - before, 0) << mode;
    device.reset();
  }
}

} // namespace
