// What a GPU sends over a fabric that reads its memory, and over one that refuses to: on the fake driver.
#include "executor/device/cuda/cuda_device.h"
#include "transport/shared_memory.h"
#include "transport/wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace maestro::executor {
namespace {

using testing::ElementsAre, testing::Each;

/// Keeps what it is given until it is told that this has left.
class KeepingFabric : public transport::Fabric {
public:
  struct Write {
    uint64_t to;
    const std::byte *from;
    uint64_t bytes;
    transport::Word *taken;
  };
  void write(const transport::Place &to, const std::byte *from, uint64_t bytes, transport::Word *taken) override {
    std::lock_guard lock(mutex);
    writes.push_back({to.offset, from, bytes, taken});
    if (reads.empty()) // Pinned memory, which a host may look at.
      contents.push_back(*from);
  }
  void put(const transport::Place &, std::span<const std::byte>) override {}
  void signal(const transport::WordPlace &, uint64_t) override { ++counts; }
  void awaitIdle() override {}
  bool readsDevices() const override { return true; }
  Status addDeviceSource(const transport::DeviceMemory &memory) override {
    ++asked;
    if (refuses)
      return Status::unavailable("the NIC is full");
    reads.push_back(memory.memory);
    return Status();
  }
  void removeSource(std::span<const std::byte> memory) override {
    std::erase_if(reads, [&](auto each) { return each.data() == memory.data(); });
  }

  std::vector<Write> awaitWrites(size_t count) {
    for (int i = 0; i < 2000; ++i) {
      {
        std::lock_guard lock(mutex);
        if (writes.size() >= count)
          return writes;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ADD_FAILURE() << writes.size() << " writes instead of " << count;
    return writes;
  }

  std::mutex mutex;
  std::vector<Write> writes;
  std::vector<std::byte> contents; ///< First bytes.
  std::vector<std::span<const std::byte>> reads;
  bool refuses = false;
  std::atomic<int> asked{0}, counts{0};
};

class FarSendsTest : public testing::Test {
protected:
  static constexpr uint64_t kRows = 4, kRowBytes = 1000, kStride = 3000;
  FarSendsTest()
      : memory(std::move(*transport::SharedMemory::create(1 << 20))), abort(*transport::Abort::create(*memory, 1)) {
    CudaDeviceOptions options;
    options.abort = &abort;
    options.runsKernels = false;
    device = std::move(*createCudaDevice(options));
    from = *device->allocate(kRows * kStride, "rows");
    to = *device->adopt(transport::Target(nullptr, &fabric, {1, 0, true}), kRows * kRowBytes);
  }
  /// Row r of `from` to place r, then a count.
  Point sendRows(Address source) {
    for (uint64_t row = 0; row < kRows; ++row)
      device->copy(Queue::Send, to + row * kRowBytes, source + row * kStride, kRowBytes);
    device->signal(Queue::Send, {nullptr, &fabric, {}}, 1);
    return device->record(Queue::Send);
  }

  std::unique_ptr<transport::SharedMemory> memory;
  transport::Abort abort;
  KeepingFabric fabric;
  std::unique_ptr<Device> device;
  Address from, to;
};

TEST_F(FarSendsTest, OneSendDoesNotWaitForAnotherToLeaveAndPointsWaitForAll) {
  Point behind = sendRows(from);
  auto writes = fabric.awaitWrites(kRows); // Though none has left.
  ASSERT_EQ(writes.size(), kRows);
  for (uint64_t row = 0; row < kRows; ++row) {
    EXPECT_EQ(writes[row].to, row * kRowBytes);
    EXPECT_EQ(writes[row].bytes, kRowBytes);
    EXPECT_EQ(writes[row].from, writes[0].from + row * kStride);
  }
  ASSERT_EQ(fabric.reads.size(), 1u) << "it is told once of the block";
  EXPECT_GE(writes[0].from, fabric.reads[0].data());
  EXPECT_LE(writes[kRows - 1].from + kRowBytes, fabric.reads[0].data() + fabric.reads[0].size());

  std::atomic<bool> passed{false};
  std::thread waiter([&] {
    EXPECT_TRUE(device->wait(behind).isOk());
    passed = true;
  });
  for (uint64_t row : {3, 1, 2}) // In whatever order they leave.
    transport::signal(*writes[row].taken, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(passed) << "the first has not left";
  transport::signal(*writes[0].taken, 1);
  waiter.join();
  EXPECT_EQ(fabric.counts, 1);
  device.reset();
  EXPECT_TRUE(fabric.reads.empty()) << "what goes is taken back";
}

TEST_F(FarSendsTest, ManySendsReuseThePlacesWhereTheyAreCounted) {
  std::atomic<bool> stops{false};
  std::thread network([&] {
    for (size_t done = 0; !stops; std::this_thread::yield()) {
      std::lock_guard lock(fabric.mutex);
      for (; done < fabric.writes.size(); ++done)
        transport::signal(*fabric.writes[done].taken, 1);
    }
  });
  for (int round = 0; round < 50; ++round)
    EXPECT_TRUE(device->wait(sendRows(from)).isOk());
  stops = true;
  network.join();
  EXPECT_EQ(fabric.writes.size(), 50 * kRows);
}

TEST_F(FarSendsTest, WhatIsRefusedGoesThroughPinnedMemory) {
  fabric.refuses = true;
  std::vector<std::byte> fives(kRows * kStride, std::byte(5)), sixes(kRows * kStride, std::byte(6));
  Address other = *device->allocate(kRows * kStride, "other rows");
  device->write(Queue::Send, from, fives.data(), fives.size());
  device->write(Queue::Send, other, sixes.data(), sixes.size());
  EXPECT_TRUE(device->wait(sendRows(from)).isOk()); // Nobody waits for rings.
  EXPECT_EQ(fabric.asked, 1);
  auto writes = fabric.awaitWrites(kRows);
  EXPECT_THAT(fabric.contents, testing::AllOf(testing::SizeIs(kRows), Each(std::byte(5))));
  for (const auto &write : writes)
    transport::signal(*write.taken, 1);
  EXPECT_TRUE(device->wait(sendRows(other)).isOk());
  EXPECT_EQ(fabric.asked, 2) << "another block may fit";
  writes = fabric.awaitWrites(2 * kRows);
  EXPECT_EQ(fabric.contents.back(), std::byte(6));
}

} // namespace
} // namespace maestro::executor
