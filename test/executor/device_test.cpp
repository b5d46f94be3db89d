// One suite for every device: order within and between queues, words, errors, regions by launch. The late device runs
// it too.
#include "executor/device/device.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

using namespace maestro;
using namespace maestro::executor;

namespace {

using Create = std::unique_ptr<Device> (*)(const transport::Abort *);

CpuDeviceOptions optionsWith(const transport::Abort *abort) {
  CpuDeviceOptions options;
  options.abort = abort;
  return options;
}
std::unique_ptr<Device> prompt(const transport::Abort *abort) {
  return createCpuDevice(kernels::createCpuLibrary(), optionsWith(abort));
}
std::unique_ptr<Device> late(const transport::Abort *abort) {
  return createLateCpuDevice(kernels::createCpuLibrary(), optionsWith(abort), {3});
}

class DeviceSuite : public testing::TestWithParam<Create> {
protected:
  void SetUp() override { device = GetParam()(nullptr); }

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
  device->read(Queue::Compute, host.data(), block, sizeof host);
  ASSERT_TRUE(device->drain().isOk());
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
  device->write(Queue::Compute, bases[97], ones.data(), sizeof ones);
  device->write(Queue::Compute, bases[98], ones.data(), sizeof ones);
  CallDescription call = addition(64);
  call.inputs = {{97, 0}, {98, 0}};
  call.outputs = {{99, 0}};
  auto program = device->prepare({&call, 1});
  ASSERT_TRUE(program.isOk());
  device->launch(**program, bases, 0);
  device->read(Queue::Compute, host.data(), bases[99], sizeof host);
  ASSERT_TRUE(device->drain().isOk());
  for (float value : host)
    EXPECT_EQ(value, 2.0f);
}

TEST_P(DeviceSuite, TheQueueMayBeFull) {
  Address total = allocate(64), one = allocate(64);
  float first = 1, count = 0;
  device->write(Queue::Compute, one, &first, sizeof first);
  std::array<Address, 2> parts = {total, one};
  for (int i = 0; i < 600; ++i)
    device->sum(Queue::Compute, total, parts, 1);
  device->read(Queue::Compute, &count, total, sizeof count);
  ASSERT_TRUE(device->drain().isOk());
  EXPECT_EQ(count, 600.0f);
}

TEST_P(DeviceSuite, OneQueueWaitsForAnother) {
  Address block = allocate(64), other = allocate(64);
  std::array<int, 50> values{}, found{};
  for (int i = 0; i < 50; ++i) { // Written, copied, read: by three queues in turn.
    values[i] = i + 1;
    device->await(Queue::Compute, device->record(Queue::Copy));
    device->write(Queue::Compute, block, &values[i], sizeof(int));
    device->await(Queue::Send, device->record(Queue::Compute));
    device->copy(Queue::Send, other, block, sizeof(int));
    device->await(Queue::Copy, device->record(Queue::Send));
    device->read(Queue::Copy, &found[i], other, sizeof(int));
  }
  ASSERT_TRUE(device->drain().isOk());
  EXPECT_EQ(found, values);
}

TEST_P(DeviceSuite, WordsOrderDevices) {
  auto memory = std::move(*transport::SharedMemory::create(1 << 20));
  transport::Abort abort = *transport::Abort::create(*memory, 2);
  auto *words = *memory->make<transport::Word>(2, "test");
  auto *shared = *memory->make<uint64_t>(1, "test");
  std::unique_ptr<Device> devices[] = {GetParam()(&abort), GetParam()(&abort)};
  transport::WaitNote note{0, transport::Activity::AwaitingArrivals, "test", 0, transport::LaneKind::Device};
  std::array<uint64_t, 50> found{};
  Address places[] = {*devices[0]->adopt(transport::Target(shared), 8),
                      *devices[1]->adopt(transport::Target(shared), 8)};
  for (uint64_t i = 0; i < found.size(); ++i) {
    uint64_t value = i * 7;
    devices[0]->awaitWord(Queue::Send, words[1], i, note);
    devices[0]->put(Queue::Send, places[0], std::as_bytes(std::span(&value, 1)));
    devices[0]->signal(Queue::Send, transport::WordTarget(words[0]), 1);
    devices[1]->awaitWord(Queue::Compute, words[0], i + 1, note);
    devices[1]->read(Queue::Compute, &found[i], places[1], 8);
    devices[1]->signal(Queue::Compute, transport::WordTarget(words[1]), 1);
  }
  for (auto &each : devices)
    ASSERT_TRUE(each->drain().isOk());
  for (uint64_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i], i * 7);
  // What never comes ends with the job.
  devices[0]->awaitWord(Queue::Receive, words[0], 1000, note);
  abort.raise(1, "enough");
  EXPECT_EQ(devices[0]->drain().message(), "rank 1: enough");
}

TEST_P(DeviceSuite, SumsInTheOrderOfTheParts) {
  constexpr uint64_t kFloats = 5000;
  std::array<Address, 3> parts = {allocate(4 * kFloats), allocate(4 * kFloats), allocate(4 * kFloats)};
  std::array<std::vector<float>, 3> values;
  std::vector<float> expected(kFloats), found(kFloats);
  for (size_t p = 0; p < 3; ++p) {
    values[p].resize(kFloats);
    for (uint64_t i = 0; i < kFloats; ++i)
      values[p][i] = std::ldexp(1.0f + static_cast<float>(i % 97) / 97, static_cast<int>((i * (p + 3)) % 40) - 20);
    device->write(Queue::Compute, parts[p], values[p].data(), 4 * kFloats);
  }
  for (uint64_t i = 0; i < kFloats; ++i)
    expected[i] = (values[0][i] + values[1][i]) + values[2][i];
  device->sum(Queue::Compute, parts[1], parts, kFloats); // In place, too.
  device->read(Queue::Compute, found.data(), parts[1], 4 * kFloats);
  ASSERT_TRUE(device->drain().isOk());
  EXPECT_EQ(found, expected);
}

TEST_P(DeviceSuite, SpansSayWhenTheirWorkRan) {
  Span span;
  span.leastNs = 2'000'000;
  int64_t before = transport::nowNs();
  device->begin(Queue::Compute, span);
  device->end(Queue::Compute, span);
  ASSERT_TRUE(device->drain().isOk());
  EXPECT_LE(before, span.startNs);
  EXPECT_LE(span.startNs + span.leastNs, span.endNs);
  EXPECT_LE(span.endNs, transport::nowNs());
}

TEST_P(DeviceSuite, TracesOutliveTheirPrograms) {
  device->enableTrace(8);
  std::array<Address, 3> bases = {allocate(256), allocate(256), allocate(256)};
  {
    std::array<CallDescription, 1> calls = {addition(64)};
    auto program = device->prepare(calls);
    ASSERT_TRUE(program.isOk()) << program.status().message();
    device->launch(**program, bases, 3);
    ASSERT_TRUE(device->drain().isOk());
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
  device->write(Queue::Compute, a, first.data(), sizeof first);
  device->write(Queue::Compute, b, second.data(), sizeof second);
  std::array<Address, 3> bases = {a, b, c}, again = {c, b, a};
  device->launch(**program, bases, 0); // c = first + second
  device->launch(**program, again, 1); // a = c + second
  device->read(Queue::Compute, result.data(), a, sizeof result);
  ASSERT_TRUE(device->drain().isOk());
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

TEST_P(DeviceSuite, WaitingForAnOldPointReturns) {
  Address block = allocate(64);
  Point before = device->record(Queue::Compute);
  device->fillZero(Queue::Compute, block, 64);
  Point after = device->record(Queue::Compute);
  EXPECT_LT(before.count, after.count);
  EXPECT_TRUE(device->wait(Point()).isOk());
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
  device->write(Queue::Compute, indices, &outside, sizeof outside);
  std::array<Address, 3> bases = {data, indices, out};
  device->launch(**program, bases, 0);
  Status status = device->drain();
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
  device->write(Queue::Compute, bases[kRegions - 2], first.data(), sizeof first);
  device->write(Queue::Compute, bases[3], second.data(), sizeof second);
  for (int i = 0; i < 600; ++i) { // More than the queue holds.
    device->launch(**program, bases, i);
    std::swap(bases[3], bases[kRegions - 1]); // The next adds 1 to what this one wrote.
  }
  std::swap(bases[3], bases[kRegions - 1]);
  device->read(Queue::Compute, result.data(), bases[kRegions - 1], sizeof result);
  ASSERT_TRUE(device->drain().isOk());
  EXPECT_EQ(result[0], 602.0f);
  EXPECT_EQ(result[63], 602.0f);
}

/// A library whose kernels tell where their operand lies.
class TellingLibrary : public kernels::Library {
public:
  std::string_view name() const override { return "telling"; }
  Result<std::unique_ptr<kernels::Kernel>> prepare(const kernels::CallSpec &) const override {
    class Telling : public kernels::Kernel {
      Status run(std::span<const void *const> inputs, std::span<void *const>, void *) override {
        told = inputs[0];
        return Status();
      }
    };
    return std::unique_ptr<kernels::Kernel>(std::make_unique<Telling>());
  }
  static inline const void *told = nullptr;
};

TEST(LateDevice, HidesItsMemoryFromTheHost) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto device = createLateCpuDevice(std::make_shared<TellingLibrary>(), {}, {3});
  Address block = *device->allocate(256, "test");
  CallDescription call;
  call.kernel = "tell";
  std::array<int64_t, 1> shape = {64};
  call.inputTypes = {kernels::TensorType(DType::F32, shape)};
  call.inputs = {{0, 0}};
  auto program = device->prepare(std::array{call});
  ASSERT_TRUE(program.isOk());
  device->launch(**program, {&block, 1}, 0);
  ASSERT_TRUE(device->drain().isOk());
  EXPECT_DEATH((void)*static_cast<const volatile char *>(TellingLibrary::told), "");
}

TEST(LateDevice, EndsABlockWithAFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto device = late(nullptr);
        Address block = *device->allocate(192, "test");
        device->fillZero(Queue::Compute, block + 192, 1);
        (void)device->drain();
      },
      "");
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceSuite, testing::Values(&prompt, &late));

} // namespace
