// What a network may do at its worst, and what becomes of it:
//   delayed, reordered     tolerated: bits are the same (the conformance suite runs on such a backend too)
//   duplicated             noticed at the sequence itself, at its release, or at the next one in its slot: the job
//   ends, as
//                          payload may have changed under a reader
//   damaged, stale epoch   noticed by the header's checksum, by its epoch
//   lost                   nothing arrives: the watcher finds who waits, for what, and ends the job
#include "test/transport/faulty_backend.h"
#include "test/transport/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace maestro::transport::test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr uint64_t kSequences = 300;

/// Two producers send `kSequences` to rank 2; what the consumer read is in `seen`.
struct Stream {
  explicit Stream(const Faults &faults) : world(3) {
    ChannelDescription description;
    description.name = "h";
    description.edge = 1;
    description.epoch = 4;
    description.consumerRank = 2;
    description.producerRanks = {0, 1};
    description.slots = 3;
    description.slotBytes = 64;
    backend = createFaultyBackend(world.memory(), world.abort(), faults);
    channel = std::move(*backend->createChannel(description));
    seen = world.make<uint64_t>(kSequences * 2);
  }

  Status run(uint32_t rank) {
    for (uint64_t k = 0; k < kSequences; ++k)
      if (Status status = rank < 2 ? produce(rank, k) : consume(k); !status.isOk())
        return status;
    return {};
  }
  Status produce(uint32_t rank, uint64_t k) {
    MAESTRO_TRY(channel.senders[rank]->awaitCredit(k, world.abort()));
    uint64_t value = k * 1000 + rank;
    Box box = Box::contiguous(&value, rank * 8, 8);
    MAESTRO_TRY(channel.senders[rank]->write(k, {&box, 1}));
    return channel.senders[rank]->post(k, {1, static_cast<uint32_t>(k), 1, 8});
  }
  Status consume(uint64_t k) {
    MAESTRO_TRY(channel.receiver->awaitArrivals(k, {2, 1, static_cast<uint32_t>(k)}, world.abort()));
    std::memcpy(seen + k * 2, channel.receiver->slot(k), 16);
    return channel.receiver->release(k);
  }
  /// Everything that was read is what was sent.
  void expectOnlyTruth() {
    for (uint64_t k = 0; k < kSequences; ++k)
      for (uint64_t rank = 0; rank < 2; ++rank)
        EXPECT_THAT(seen[k * 2 + rank], AnyOf(0, k * 1000 + rank));
  }

  World world;
  std::unique_ptr<Backend> backend;
  Channel channel;
  uint64_t *seen;
};

class FaultTest : public testing::TestWithParam<RankKind> {
protected:
  std::string messageUnder(const Faults &faults) {
    Stream stream(faults);
    Status status = stream.world.run(GetParam(), [&](uint32_t rank) { return stream.run(rank); });
    if (faults.duplicates == 0)
      stream.expectOnlyTruth();
    return std::string(status.message());
  }
};

TEST_P(FaultTest, DelaysAndDisorderChangeNothing) {
  for (uint64_t seed : {1, 2, 3}) {
    Faults faults;
    faults.seed = seed;
    Stream stream(faults);
    Status status = stream.world.run(GetParam(), [&](uint32_t rank) { return stream.run(rank); });
    EXPECT_TRUE(status.isOk()) << status.message();
    for (uint64_t k = 0; k < kSequences * 2; ++k)
      ASSERT_EQ(stream.seen[k], k / 2 * 1000 + k % 2);
  }
}

TEST_P(FaultTest, DuplicatesAreNoticed) {
  for (uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    Faults faults;
    faults.seed = seed;
    faults.duplicates = 20;
    EXPECT_THAT(messageUnder(faults),
                AllOf(HasSubstr("channel 'h'"),
                      AnyOf(HasSubstr("more posts than the schedule has"), HasSubstr("a post was counted twice"),
                            HasSubstr("a post came after the last one"))));
  }
}

TEST_P(FaultTest, DamagedHeadersAreNoticed) {
  Faults faults;
  faults.damagedHeaders = 30;
  EXPECT_THAT(messageUnder(faults), HasSubstr("its checksum is wrong"));
}

TEST_P(FaultTest, MessagesOfAnEarlierRunAreNoticed) {
  Faults faults;
  faults.staleEpochs = 30;
  EXPECT_THAT(messageUnder(faults), HasSubstr("epoch 3 instead of 4"));
}

TEST_P(FaultTest, LostMessagesStallAndTheWatcherSaysWho) {
  Faults faults;
  faults.drops = 50;
  Stream stream(faults);
  Status status = stream.world.run(GetParam(), [&](uint32_t rank) -> Status {
    if (rank != 0)
      return stream.run(rank);
    // The supervisor lives beside rank 0 here; nobody gets through with messages lost, so it always comes to act.
    std::thread supervisor([&] {
      StallLimits limits{.beatNs = 700'000'000, .waitNs = 700'000'000, .workNs = 700'000'000};
      while (!stream.world.abort().isRaised()) {
        usleep(20'000);
        if (auto stall = stream.world.abort().progress().findStall(limits))
          stream.world.abort().raise(stall->rank, stall->text);
      }
    });
    Status ended = stream.run(rank);
    supervisor.join();
    return ended;
  });
  EXPECT_THAT(std::string(status.message()), HasSubstr("no progress for"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("awaits arrivals 'h'"));
  stream.expectOnlyTruth();
}

INSTANTIATE_TEST_SUITE_P(All, FaultTest, testing::Values(RankKind::Threads, RankKind::Processes),
                         [](const auto &info) { return info.param == RankKind::Threads ? "Threads" : "Processes"; });

} // namespace
} // namespace maestro::transport::test
