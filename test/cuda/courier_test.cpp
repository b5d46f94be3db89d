// What the courier of a GPU hands out, and when it stops: on the fake driver.
#include "executor/device/cuda/courier.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace maestro::executor {
namespace {

class Silent : public CourierListener {
public:
  bool hasFailed() override { return false; }
  void waitEnded(Status) override {}
  void lookAfterGpu() override {}
  void sign(DeviceSign) override {}
  void span(const Span &, bool) override {}
  void call(const TraceSpan &) override {}
};

/// A courier whose marks are written by hand.
class CourierTest : public testing::Test {
protected:
  void SetUp() override {
    context = std::move(*cuda::Context::open(0));
    clock = std::move(*Clock::create(*context));
    std::array<Courier::Lane, kQueues> lanes;
    for (size_t q = 0; q < kQueues; ++q) {
      rings[q].emplace(std::move(*PinnedBlock::create(*context, PinnedRing::kBytes)));
      lanes[q] = {&*rings[q], &reached[q], &sent[q]};
    }
    courier = std::make_unique<Courier>(listener, *clock, lanes, nullptr);
  }
  /// Number of the entry, whose bytes are all 7.
  uint64_t pushRead(std::span<std::byte> to) {
    auto piece = rings[0]->take(to.size());
    EXPECT_TRUE(piece.has_value());
    std::memset(piece->memory, 7, to.size());
    return courier->push(Queue{0}, entry::Deliver{to.data(), *piece, to.size()});
  }

  std::unique_ptr<cuda::Context> context;
  std::unique_ptr<Clock> clock;
  Silent listener;
  std::array<std::optional<PinnedRing>, kQueues> rings;
  std::array<std::atomic<uint64_t>, kQueues> reached{};
  std::array<transport::Word, kQueues> sent{};
  std::unique_ptr<Courier> courier;
};

TEST_F(CourierTest, WhatIsReachedIsHandedOut) {
  std::vector<std::byte> read(100);
  uint64_t number = pushRead(read);
  reached[0] = number;
  courier->await(Queue{0}, number);
  EXPECT_EQ(read, std::vector<std::byte>(100, std::byte{7}));
}

TEST_F(CourierTest, NothingIsHandedOutAfterwards) {
  std::vector<std::byte> read(100);
  uint64_t number = pushRead(read);
  courier->cease(); // As after a failure: the memory is its owner's again.
  reached[0] = number;
  courier->await(Queue{0}, number);
  EXPECT_EQ(read, std::vector<std::byte>(100));
}

/// A ring full of entries of which none is done: what comes then has no place.
TEST_F(CourierTest, ALostGpuTakesNothingOverWhatIsNotDone) {
  std::vector<std::vector<std::byte>> reads(600, std::vector<std::byte>(8));
  for (size_t i = 0; i < 512; ++i)
    (void)pushRead(reads[i]);
  std::thread losing([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    courier->lose();
  });
  for (size_t i = 512; i < 600; ++i)
    (void)pushRead(reads[i]);
  losing.join();
  EXPECT_EQ(courier->pushed(Queue{0}), 512u);
  reached[0] = 600;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const auto &read : reads)
    EXPECT_EQ(read, std::vector<std::byte>(8));
}

} // namespace
} // namespace maestro::executor
