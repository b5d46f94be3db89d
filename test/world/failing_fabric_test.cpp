// A network whose k-th operation fails: whatever it was, all ranks end soon, with the one cause.
#include "executor/world/agreement.h"
#include "executor/world/channel.h"
#include "executor/world/exchange.h"
#include "test/world/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <vector>

namespace maestro::executor::test {
namespace {

constexpr uint32_t kRanks = 3;
constexpr uint64_t kRounds = 6;

enum Operation : uint8_t { Write, Put, Signal, kOperations };

/// One rank's way to the segments of the others, which are memory of this process; until it fails.
class FailingFabric : public transport::Fabric {
public:
  FailingFabric(uint32_t rank, const std::vector<transport::Segments> &all, const transport::Abort &abort)
      : rank(rank), all(all), abort(abort) {}

  void failAt(Operation operation, uint64_t number) { failing = operation, last = number; }
  uint64_t count(Operation operation) const { return counts[operation]; }

  void write(const transport::Place &to, const std::byte *from, uint64_t bytes, transport::Word *taken) override {
    if (!works(Write))
      return;
    std::memcpy(all[to.rank].at(to), from, bytes);
    if (taken)
      transport::signal(*taken, 1);
  }
  void put(const transport::Place &to, std::span<const std::byte> bytes) override {
    if (works(Put))
      std::memcpy(all[to.rank].at(to), bytes.data(), bytes.size());
  }
  void signal(const transport::WordPlace &word, uint64_t more) override {
    if (works(Signal))
      transport::signal(*all[word.rank].word(word), more);
  }
  void awaitIdle() override {}

private:
  bool works(Operation operation) {
    if (++counts[operation] == last && operation == failing) {
      hasFailed = true;
      abort.raise(rank, "the network failed");
    }
    return !hasFailed;
  }

  uint32_t rank;
  const std::vector<transport::Segments> &all;
  const transport::Abort &abort;
  Operation failing = Write;
  uint64_t last = 0;
  std::array<std::atomic<uint64_t>, kOperations> counts{};
  std::atomic<bool> hasFailed{false};
};

/// Two ranks send to the third; all add up tensors, and agree.
class Job {
public:
  explicit Job(DeviceKind kind) : kind(kind), world(kRanks), places(kRanks) {
    ChannelDescription description;
    description.name = "features";
    description.consumerRank = 2;
    description.producerRanks = {0, 1};
    description.slots = 2;
    description.slotBytes = 128;
    channel = *Channel::plan(places, description);
    exchange = *Exchange::plan(places, {"tensors", {0, 1, 2}, 256});
    agreement = *Agreement::plan(places, {"norms", "schedules", {0, 1, 2}, 1, 16});
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      segments.push_back(*transport::Segments::create(world.memory(), places, {rank, rank + 1}));
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      fabrics.push_back(std::make_unique<FailingFabric>(rank, segments, world.abort()));
      segments[rank].connect(*fabrics[rank]);
    }
  }

  Status run() {
    return world.run(RankKind::Threads, [&](uint32_t rank) { return runRank(rank); });
  }

  FailingFabric &fabric(uint32_t rank) { return *fabrics[rank]; }

private:
  Status runRank(uint32_t rank) {
    auto device = createDevice(kind, world, rank);
    std::unique_ptr<Sender> sender;
    std::unique_ptr<Receiver> receiver;
    if (rank < 2) {
      MAESTRO_ASSIGN(sender, channel.sender(segments[rank], rank, *device));
    } else {
      MAESTRO_ASSIGN(receiver, channel.receiver(segments[rank], *device));
    }
    MAESTRO_ASSIGN(Exchange::Member tensors, exchange->member(segments[rank], rank, *device));
    Agreement::Member norms = agreement->member(segments[rank], rank);
    MAESTRO_ASSIGN(Address values, device->allocate(1024, "test"));
    for (uint64_t round = 0; round < kRounds; ++round) {
      if (sender) {
        sender->awaitCredit(Queue::Send, round);
        Box box = Box::contiguous(rank * 64, 0, 64);
        MAESTRO_TRY(sender->send(Queue::Send, round, values, {&box, 1}, {round, 0, 1, 64}));
      } else {
        MAESTRO_TRY(receiver->awaitArrivals(Queue::Receive, round, {2, round, 0}));
        MAESTRO_TRY(receiver->release(Queue::Receive, round));
      }
      tensors.sum(Queue::Compute, values, values, 100); // Several turns.
      MAESTRO_TRY(device->drain());
      if (receiver)
        MAESTRO_TRY(receiver->checkHeaders());
      double own = 1, all = 0;
      MAESTRO_TRY(norms.publish(round + 1, 0, {&own, 1}, world.abort()));
      MAESTRO_TRY(norms.await(round + 1, {&all, 1}, world.abort()));
      if (all != kRanks)
        return fail("another sum");
    }
    return Status();
  }

  DeviceKind kind;
  World world;
  transport::SegmentPlan places;
  Channel channel;
  std::optional<Exchange> exchange;
  std::optional<Agreement> agreement;
  std::vector<transport::Segments> segments;
  std::vector<std::unique_ptr<FailingFabric>> fabrics;
};

class FailingFabricTest : public testing::TestWithParam<DeviceKind> {};

TEST_P(FailingFabricTest, EveryOperationMayBeTheLast) {
  constexpr uint64_t kMostTried = 16; // Of a kind and rank, spread over all.
  Job unbroken(GetParam());
  ASSERT_EQ(std::string(unbroken.run().message()), "ok");
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    for (auto operation : {Write, Put, Signal}) {
      uint64_t count = unbroken.fabric(rank).count(operation);
      if (operation != Put || rank < 2) // Headers, of those who send.
        ASSERT_GE(count, kRounds) << "rank " << rank << ", operation " << int{operation};
      for (uint64_t tried = 0; tried < std::min(count, kMostTried); ++tried) {
        uint64_t number = 1 + tried * count / std::min(count, kMostTried);
        Job job(GetParam());
        job.fabric(rank).failAt(operation, number);
        auto began = std::chrono::steady_clock::now();
        EXPECT_EQ(std::string(job.run().message()), "rank " + std::to_string(rank) + ": the network failed")
            << "operation " << int{operation} << ", the " << number << "th of " << count;
        EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(5));
      }
    }
}

INSTANTIATE_TEST_SUITE_P(All, FailingFabricTest, testing::Values(DeviceKind::Prompt, DeviceKind::Late),
                         [](const auto &info) { return info.param == DeviceKind::Prompt ? "Prompt" : "Late"; });

#ifdef MAESTRO_CUDA
TEST(CudaNcclLimits, ARankOfMorePeersThanStreamsAreIndependentForIsRefused) {
  World world(20);
  transport::SegmentPlan plan(world.ranks());
  transport::NcclPlaces places;
  for (uint32_t other = 1; other < world.ranks(); ++other)
    places.plan(plan, other, 0);
  auto segments = transport::Segments::create(world.memory(), plan, {0, 1});
  ASSERT_TRUE(segments.isOk()) << segments.status().message();
  auto open = [&](uint32_t peers) {
    transport::NcclOptions options{0, 0, {}, 4096};
    for (uint32_t other = 1; other <= peers; ++other)
      options.peers.insert(other);
    return transport::NcclFabric::open(options, places, *segments, world.abort());
  };
  EXPECT_TRUE(open(13).isOk());
  EXPECT_EQ(open(14).status().message(), "it exchanges with 14 ranks, and by NCCL a GPU's work queues serve 13; plan "
                                         "for smaller groups of replicas");
}
#endif

} // namespace
} // namespace maestro::executor::test
