// One suite for every device: order within and between queues, words, errors, regions by launch. The late device runs
// it too, and so does a GPU's, with whatever driver there is.
#include "executor/device/device.h"
#ifdef MAESTRO_CUDA
#include "cuda/context.h"
#include "executor/device/cuda/cuda_device.h"
#endif

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <vector>

using namespace maestro;
using namespace maestro::executor;

namespace {

/// With memory that ranks share, or none.
using Create = std::unique_ptr<Device> (*)(const transport::Abort *, std::span<std::byte> shared);

CpuDeviceOptions optionsWith(const transport::Abort *abort) {
  CpuDeviceOptions options;
  options.abort = abort;
  return options;
}
std::unique_ptr<Device> prompt(const transport::Abort *abort, std::span<std::byte>) {
  return createCpuDevice(kernels::createCpuLibrary(), optionsWith(abort));
}
std::unique_ptr<Device> late(const transport::Abort *abort, std::span<std::byte>) {
  return createLateCpuDevice(kernels::createCpuLibrary(), optionsWith(abort), {3});
}
#ifdef MAESTRO_CUDA
std::unique_ptr<Device> onGpu(const transport::Abort *abort, std::span<std::byte> shared) {
  static auto kept = cuda::Context::open(0); // Making a context takes a real GPU longer than a test does.
  CudaDeviceOptions options;
  options.abort = abort;
  options.shared = {shared};
  auto device = createCudaDevice(options);
  EXPECT_TRUE(device.isOk()) << device.status().message();
  return device ? std::move(*device) : nullptr;
}
#endif

class DeviceSuite : public testing::TestWithParam<Create> {
protected:
  void SetUp() override {
    device = GetParam()(nullptr, {});
    ASSERT_TRUE(device);
  }

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
  std::unique_ptr<Device> devices[] = {GetParam()(&abort, memory->span()), GetParam()(&abort, memory->span())};
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

TEST_P(DeviceSuite, SumsOfManyPartsAreInOrder) {
  constexpr size_t kParts = 700; // More than one launch of a GPU takes, twice.
  constexpr uint64_t kFloats = 37, kStride = 256;
  Address all = allocate(kParts * kStride), apart = allocate(kStride);
  std::vector<float> values(kParts * kStride / 4), expected(kFloats), found(kFloats);
  std::vector<Address> parts;
  for (size_t p = 0; p < kParts; ++p) {
    parts.push_back(all + p * kStride);
    for (uint64_t i = 0; i < kFloats; ++i) {
      float &value = values[p * kStride / 4 + i];
      value = std::ldexp(1.0f + static_cast<float>((i + p) % 97) / 97, static_cast<int>((i * 5 + p * 7) % 40) - 20);
      expected[i] = p == 0 ? value : expected[i] + value;
    }
  }
  for (size_t into : {size_t{0}, size_t{300}, kParts - 1, kParts}) { // The last: none of the parts.
    Address to = into < kParts ? parts[into] : apart;
    device->write(Queue::Compute, all, values.data(), values.size() * 4);
    device->sum(Queue::Compute, to, parts, kFloats);
    device->read(Queue::Compute, found.data(), to, 4 * kFloats);
    ASSERT_TRUE(device->drain().isOk());
    EXPECT_EQ(found, expected) << "into part " << into;
  }
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

TEST_P(DeviceSuite, CopiesBoxes) {
  constexpr uint64_t kBytes = 1 << 16;
  auto memory = std::move(*transport::SharedMemory::create(1 << 20));
  auto *others = *memory->make<std::byte>(kBytes, "test");
  device = GetParam()(nullptr, memory->span());
  Address own = allocate(kBytes), copied = allocate(kBytes), shared = *device->adopt(transport::Target(others), kBytes);
  std::vector<std::byte> source(kBytes), found(kBytes);
  for (uint64_t i = 0; i < kBytes; ++i)
    source[i] = static_cast<std::byte>(i * 7 + i / 256);
  device->write(Queue::Compute, own, source.data(), kBytes);
  Box whole = Box::contiguous(64, 128, 5000);
  Box rows{0, 256, 768, 1, {20}, {1024}, {2048}};       // Rows that a copy engine takes,
  Box narrow{12, 4, 4, 2, {30, 9}, {400, 36}, {80, 8}}, // that it does not,
      columns{2, 6, 2, 3, {3, 5, 7}, {2, 6, 30}, {140, 28, 4}}, reversed{900, 0, 1, 1, {901}, {-1}, {1}},
      repeated{16, 0, 16, 1, {64}, {0}, {16}}, none{0, 0, 8, 2, {4, 0}, {8, 8}, {8, 8}};
  for (const Box &box : {whole, rows, narrow, columns, reversed, repeated, none})
    for (Address to : {copied, shared})
      for (Address from : {own, shared}) {
        if (to.block == from.block)
          continue;
        device->copy(Queue::Compute, shared, own, kBytes);
        device->fillZero(Queue::Compute, to, kBytes);
        device->copy(Queue::Compute, to, from, box);
        device->read(Queue::Compute, found.data(), to, kBytes);
        ASSERT_TRUE(device->drain().isOk());
        std::vector<std::byte> expected(kBytes);
        copyBox(box, expected.data(), source.data());
        ASSERT_EQ(found, expected) << box.rank << " dims, " << to.block << " <- " << from.block;
      }
  device.reset(); // Before what it has adopted.
}

TEST_P(DeviceSuite, SharedMemoryIsCopiedWithin) {
  auto memory = std::move(*transport::SharedMemory::create(1 << 20));
  auto *numbers = *memory->make<uint32_t>(2000, "test");
  device = GetParam()(nullptr, memory->span());
  Address first = *device->adopt(transport::Target(numbers), 4000);
  Address second = *device->adopt(transport::Target(numbers + 1000), 4000);
  std::vector<uint32_t> values(1000), found(1000);
  std::iota(values.begin(), values.end(), 5);
  device->write(Queue::Send, first, values.data(), 4000);
  device->copy(Queue::Send, second, first, 4000);
  device->read(Queue::Send, found.data(), second, 4000);
  device->fillZero(Queue::Send, second, 4000);
  ASSERT_TRUE(device->drain().isOk());
  EXPECT_EQ(found, values);
  EXPECT_EQ(numbers[1999], 0u);
  device.reset();
}

TEST_P(DeviceSuite, TransfersMayBeLarge) {
  constexpr uint64_t kCount = 3 << 20;
  Address block = allocate(4 * kCount);
  std::vector<uint32_t> values(kCount), found(kCount);
  std::iota(values.begin(), values.end(), 1);
  device->write(Queue::Copy, block, values.data(), 4 * kCount);
  device->read(Queue::Copy, found.data(), block, 4 * kCount);
  ASSERT_TRUE(device->wait(device->record(Queue::Copy)).isOk());
  EXPECT_EQ(found, values);
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
  EXPECT_EQ(status.message(), "gather (wte): gather: index 99 at position 0 is outside [-8, 8)");
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
        auto device = late(nullptr, {});
        Address block = *device->allocate(192, "test");
        device->fillZero(Queue::Compute, block + 192, 1);
        (void)device->drain();
      },
      "");
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceSuite, testing::Values(&prompt, &late));
#ifdef MAESTRO_CUDA
INSTANTIATE_TEST_SUITE_P(Cuda, DeviceSuite, testing::Values(&onGpu));
#endif

} // namespace
