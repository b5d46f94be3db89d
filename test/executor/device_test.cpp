// One suite for every device: order, events, errors, regions by launch. The late device runs it too.
#include "executor/device/device.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

using namespace maestro;
using namespace maestro::executor;

namespace {

using Create = std::unique_ptr<Device> (*)();

std::unique_ptr<Device> prompt() { return createCpuDevice(kernels::createCpuLibrary(), {}); }
std::unique_ptr<Device> late() { return createLateCpuDevice(kernels::createCpuLibrary(), {}, {3}); }

class DeviceSuite : public testing::TestWithParam<Create> {
protected:
  void SetUp() override { device = GetParam()(); }

  Address allocate(uint64_t bytes) {
    auto address = device->allocate(bytes, "test");
    EXPECT_TRUE(address.isOk());
    return *address;
  }

  /// out = a + b over `count` floats in regions 0, 1, 2.
  CallDescription addition(int64_t count) {
    CallDescription call;
    call.kernel = "add";
    call.scope = "layer.0";
    std::array<int64_t, 1> shape = {count};
    call.inputTypes.assign(2, kernels::TensorType(DType::F32, shape));
    call.outputTypes.assign(1, kernels::TensorType(DType::F32, shape));
    call.inputs = {{0, 0}, {1, 0}};
    call.outputs = {{2, 0}};
    return call;
  }

  std::unique_ptr<Device> device;
};

TEST_P(DeviceSuite, MemoryStartsZeroed) {
  Address block = allocate(256);
  std::array<float, 64> host;
  host.fill(1);
  device->read(host.data(), block, sizeof host);
  ASSERT_TRUE(device->wait(device->record()).isOk());
  for (float value : host)
    EXPECT_EQ(value, 0.0f);
}

TEST_P(DeviceSuite, AProgramMayUseManyRegions) {
  constexpr uint32_t kRegions = 100;
  std::vector<Address> bases;
  for (uint32_t r = 0; r < kRegions; ++r)
    bases.push_back(allocate(256));
  std::array<float, 64> ones, host;
  ones.fill(1);
  device->write(bases[97], ones.data(), sizeof ones);
  device->write(bases[98], ones.data(), sizeof ones);
  CallDescription call = addition(64);
  call.inputs = {{97, 0}, {98, 0}};
  call.outputs = {{99, 0}};
  auto program = device->prepare({&call, 1});
  ASSERT_TRUE(program.isOk());
  device->launch(**program, bases, 0);
  device->read(host.data(), bases[99], sizeof host);
  // A function is given as many pointers.
  auto sum = [](void *context, std::span<std::byte *const> pointers) {
    for (std::byte *pointer : pointers)
      *static_cast<float *>(context) += *reinterpret_cast<float *>(pointer);
    return Status();
  };
  float total = 0;
  device->call(sum, &total, bases);
  ASSERT_TRUE(device->wait(device->record()).isOk());
  for (float value : host)
    EXPECT_EQ(value, 2.0f);
  EXPECT_EQ(total, 4.0f);
}

TEST_P(DeviceSuite, TheQueueMayBeFull) {
  Address block = allocate(256);
  float count = 0;
  auto slowly = [](void *context, std::span<std::byte *const>) {
    ++*static_cast<float *>(context);
    std::this_thread::sleep_for(std::chrono::microseconds(10));
    return Status();
  };
  for (int i = 0; i < 300; ++i) {
    device->call(slowly, &count, {&block, 1});
    device->fillZero(block, 256);
  }
  ASSERT_TRUE(device->wait(device->record()).isOk());
  EXPECT_EQ(count, 300.0f);
}

TEST_P(DeviceSuite, TracesOutliveTheirPrograms) {
  device->enableTrace(8);
  std::array<Address, 3> bases = {allocate(256), allocate(256), allocate(256)};
  {
    std::array<CallDescription, 1> calls = {addition(64)};
    auto program = device->prepare(calls);
    ASSERT_TRUE(program.isOk()) << program.status().message();
    device->launch(**program, bases, 3);
    ASSERT_TRUE(device->wait(device->record()).isOk());
  }
  ASSERT_EQ(device->trace().size(), 1u);
  EXPECT_EQ(device->trace()[0].name, "add");
  EXPECT_EQ(device->trace()[0].scope, "layer.0");
  EXPECT_EQ(device->trace()[0].task, 3);
}

TEST_P(DeviceSuite, WorkRunsInOrder) {
  Address a = allocate(256), b = allocate(256), c = allocate(256);
  std::array<CallDescription, 1> calls = {addition(64)};
  auto program = device->prepare(calls);
  ASSERT_TRUE(program.isOk()) << program.status().message();
  std::array<float, 64> first, second, result{};
  std::iota(first.begin(), first.end(), 0.0f);
  std::iota(second.begin(), second.end(), 100.0f);
  device->write(a, first.data(), sizeof first);
  device->write(b, second.data(), sizeof second);
  std::array<Address, 3> bases = {a, b, c}, again = {c, b, a};
  device->launch(**program, bases, 0); // c = first + second
  device->launch(**program, again, 1); // a = c + second
  device->read(result.data(), a, sizeof result);
  ASSERT_TRUE(device->wait(device->record()).isOk());
  for (size_t i = 0; i < result.size(); ++i)
    EXPECT_EQ(result[i], first[i] + 2 * second[i]);
}

TEST_P(DeviceSuite, CallsThatAreAlikeShareAKernelForAsLongAsAProgramUsesIt) {
  CallDescription other = addition(64), softmax;
  std::swap(other.inputs[0], other.inputs[1]);
  softmax.kernel = "softmax";
  std::array<int64_t, 2> shape = {8, 8};
  softmax.inputTypes = softmax.outputTypes = {kernels::TensorType(DType::F32, shape)};
  softmax.inputs = {{0, 0}};
  softmax.outputs = {{1, 0}};
  std::array<CallDescription, 2> alongRows = {softmax, softmax};
  for (size_t axis = 0; axis < 2; ++axis)
    alongRows[axis].attributes = {{"axis", kernels::Attribute::Kind::Ints, {static_cast<int64_t>(axis)}, {}, {}}};
  auto first = device->prepare(std::array{addition(64), other});
  ASSERT_TRUE(first.isOk());
  EXPECT_EQ(device->preparedKernels(), 1u); // Where operands lie is the call's.
  auto second = device->prepare(std::array{addition(64), addition(32)});
  ASSERT_TRUE(second.isOk());
  EXPECT_EQ(device->preparedKernels(), 2u); // Not other shapes.
  auto third = device->prepare(alongRows);
  ASSERT_TRUE(third.isOk());
  EXPECT_EQ(device->preparedKernels(), 4u); // Nor other attributes.
  first->reset();
  EXPECT_EQ(device->preparedKernels(), 4u);
  second->reset();
  EXPECT_EQ(device->preparedKernels(), 2u);
}

TEST_P(DeviceSuite, EventsAreOrderedAndWaitingForAnOldOneReturns) {
  Address block = allocate(64);
  Event before = device->record();
  device->fillZero(block, 64);
  Event after = device->record();
  EXPECT_LT(before, after);
  EXPECT_TRUE(device->wait(after).isOk());
  EXPECT_TRUE(device->wait(before).isOk());
}

TEST_P(DeviceSuite, AFailureNamesItsScopeAndStopsWhatFollows) {
  Address data = allocate(256), indices = allocate(64), out = allocate(64);
  std::array<int64_t, 2> table = {8, 4};
  std::array<int64_t, 1> one = {1};
  std::array<int64_t, 2> row = {1, 4};
  CallDescription gather;
  gather.kernel = "gather";
  gather.scope = "wte";
  kernels::Attribute axis;
  axis.name = "axis";
  axis.ints = {0};
  gather.attributes = {axis};
  gather.inputTypes = {kernels::TensorType(DType::F32, table), kernels::TensorType(DType::I64, one)};
  gather.outputTypes = {kernels::TensorType(DType::F32, row)};
  gather.inputs = {{0, 0}, {1, 0}};
  gather.outputs = {{2, 0}};
  std::array<CallDescription, 1> calls = {gather};
  auto program = device->prepare(calls);
  ASSERT_TRUE(program.isOk()) << program.status().message();
  int64_t outside = 99;
  device->write(indices, &outside, sizeof outside);
  std::array<Address, 3> bases = {data, indices, out};
  device->launch(**program, bases, 0);
  Status status = device->wait(device->record());
  ASSERT_FALSE(status.isOk());
  EXPECT_EQ(status.code(), StatusCode::InvalidInput);
  EXPECT_NE(status.message().find("wte"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("99"), std::string::npos) << status.message();
}

TEST_P(DeviceSuite, AnUnknownKernelIsRefusedByName) {
  CallDescription call = addition(4);
  call.kernel = "no_such_kernel";
  std::array<CallDescription, 1> calls = {call};
  auto program = device->prepare(calls);
  ASSERT_FALSE(program.isOk());
  EXPECT_NE(program.status().message().find("no_such_kernel"), std::string::npos);
}

TEST_P(DeviceSuite, ALaunchHasAsManyRegionsAsTheProgramNeeds) {
  constexpr uint32_t kRegions = 100; // The last of them all are the sum's.
  std::vector<Address> bases;
  for (uint32_t r = 0; r < kRegions; ++r)
    bases.push_back(allocate(256));
  CallDescription call = addition(64);
  call.inputs = {{kRegions - 2, 0}, {3, 0}};
  call.outputs = {{kRegions - 1, 0}};
  auto program = device->prepare(std::array{call});
  ASSERT_TRUE(program.isOk()) << program.status().message();
  std::array<float, 64> first, second, result{};
  first.fill(1);
  second.fill(2);
  device->write(bases[kRegions - 2], first.data(), sizeof first);
  device->write(bases[3], second.data(), sizeof second);
  for (int i = 0; i < 600; ++i) { // More than the queue holds.
    device->launch(**program, bases, i);
    std::swap(bases[3], bases[kRegions - 1]); // The next adds 1 to what this one wrote.
  }
  std::swap(bases[3], bases[kRegions - 1]);
  device->read(result.data(), bases[kRegions - 1], sizeof result);
  ASSERT_TRUE(device->wait(device->record()).isOk());
  EXPECT_EQ(result[0], 602.0f);
  EXPECT_EQ(result[63], 602.0f);
}

/// A pointer that a queued function saw.
std::byte *leakPointer(Device &device, Address block) {
  std::byte *leaked = nullptr;
  device.call(
      [](void *context, std::span<std::byte *const> pointers) {
        *static_cast<std::byte **>(context) = pointers[0];
        return Status();
      },
      &leaked, {&block, 1});
  EXPECT_TRUE(device.wait(device.record()).isOk());
  return leaked;
}

TEST(LateDevice, HidesItsMemoryFromTheHost) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto device = late();
        Address block = *device->allocate(256, "test");
        volatile std::byte *leaked = leakPointer(*device, block);
        (void)*leaked;
      },
      "");
}

TEST(LateDevice, EndsABlockWithAFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto device = late();
        Address block = *device->allocate(192, "test");
        device->fillZero(block + 192, 1);
        (void)device->wait(device->record());
      },
      "");
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceSuite, testing::Values(&prompt, &late));

} // namespace
