// What every fabric over a network does with memory of devices: where writes go, and when what has been written is made
// visible. On an implementation that only notes.
#include "transport/network/network_fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace maestro::transport {
namespace {

using testing::ElementsAre, testing::HasSubstr;

class Noting : public NetworkFabric {
public:
  Noting(const Segments &segments, const Abort &abort) : NetworkFabric(segments, abort) {
    EXPECT_TRUE(openQueues().isOk());
  }
  ~Noting() override { stop(); }
  std::string name() const override { return "noting"; }
  using NetworkFabric::arrived, NetworkFabric::noteBulk;
  std::pair<uint64_t, uint64_t> whereTo(uint32_t rank, uint64_t offset) const {
    Operation operation;
    operation.rank = rank;
    operation.offset = offset;
    Destination to = destinationOf(operation);
    return {to.address, to.key};
  }

private:
  std::vector<std::byte> endpoint() const override { return {std::byte(1)}; }
  FabricCard::Segment segmentCard(uint32_t) const override {
    FabricCard::Segment card;
    card.base = 1000;
    card.key = 7;
    return card;
  }
  Status connectPeer(const Peer &, std::span<const std::byte>) override { return Status(); }
  bool post(Peer &) override { return false; }
  bool collect() override { return false; }
  int arm() override { return -1; }
};

/// Two processes of two ranks each, with two words and some bulk a rank.
class NetworkFabricTest : public testing::Test {
protected:
  NetworkFabricTest() {
    for (uint32_t rank = 0; rank < 4; ++rank) {
      words.push_back(plan.reserveWords(rank, 2));
      bulk.push_back(plan.reserveBulk(rank, 100));
    }
    memory = std::move(*SharedMemory::create(1 << 20));
    abort.emplace(*Abort::create(*memory, 4));
    one.emplace(*Segments::create(*memory, plan, {0, 2}));
    other.emplace(*Segments::create(*memory, plan, {2, 4}));
    here = std::make_unique<Noting>(*one, *abort);
    there = std::make_unique<Noting>(*other, *abort);
    EXPECT_TRUE(here->connect({2, 4}, "process 1", there->card()).isOk());
  }
  uint32_t countFor(uint32_t word) const { return word << 8 | 1; }
  uint64_t counted(uint32_t rank, uint32_t word) const { return one->word(rank, word)->count(); }

  SegmentPlan plan{4};
  std::vector<WordPlace> words;
  std::vector<Place> bulk;
  std::unique_ptr<SharedMemory> memory;
  std::optional<Abort> abort;
  std::optional<Segments> one, other;
  std::unique_ptr<Noting> here, there;
};

TEST_F(NetworkFabricTest, BulkOnADeviceHasAPlaceAndAKeyOfItsOwn) {
  uint64_t hostBytes = plan.hostBytes(2);
  EXPECT_EQ(here->whereTo(2, hostBytes + 64), std::pair(1000 + hostBytes + 64, uint64_t{7}));
  there->noteBulk(2, FabricCard::Bulk{2, 1 << 30, 9}, {});
  ASSERT_TRUE(here->connectBulk({2, 4}, there->bulkCard()).isOk());
  EXPECT_EQ(here->whereTo(2, hostBytes + 64), std::pair(uint64_t{(1 << 30) + 64}, uint64_t{9}));
  EXPECT_EQ(here->whereTo(2, 64), std::pair(uint64_t{1064}, uint64_t{7})) << "words stay with the host";
  EXPECT_EQ(here->whereTo(3, hostBytes), std::pair(1000 + hostBytes, uint64_t{7})) << "so does what was not placed";
}

TEST_F(NetworkFabricTest, CardsThatAreNotWholeOrOfOthersAreRefused) {
  there->noteBulk(2, FabricCard::Bulk{2, 1 << 30, 9}, {});
  std::vector<std::byte> card = there->bulkCard();
  Status others = here->connectBulk({3, 4}, card);
  EXPECT_THAT(std::string(others.message()), HasSubstr("the address of ranks 3 to 3 tells of memory of rank 2"));
  card.pop_back();
  EXPECT_THAT(std::string(here->connectBulk({2, 4}, card).message()), HasSubstr("cut off"));
}

TEST_F(NetworkFabricTest, WhatWasWrittenIsMadeVisibleBeforeItIsCounted) {
  std::vector<uint64_t> countsAtFlush;
  here->noteBulk(1, FabricCard::Bulk{1, 1 << 30, 9}, [&] {
    countsAtFlush.push_back(counted(1, 0) + counted(1, 1));
    return Status();
  });
  here->arrived(std::array{countFor(0)}); // Rank 0's, whose bulk is the host's.
  EXPECT_THAT(countsAtFlush, ElementsAre());
  here->arrived(std::array{countFor(2), countFor(3)}); // Both have come: once is enough.
  EXPECT_THAT(countsAtFlush, ElementsAre(0));
  here->arrived(std::array{countFor(2)});
  EXPECT_THAT(countsAtFlush, ElementsAre(0, 2));
  here->noteBulk(1, std::nullopt, {});
  here->arrived(std::array{countFor(2)});
  EXPECT_THAT(countsAtFlush, ElementsAre(0, 2)) << "it is no longer there";
  EXPECT_EQ(counted(0, 0), 1u);
  EXPECT_EQ(counted(1, 0) + counted(1, 1), 4u);
}

TEST_F(NetworkFabricTest, WhatCannotBeMadeVisibleEndsTheJobUncounted) {
  here->noteBulk(1, FabricCard::Bulk{1, 1 << 30, 9}, [] { return Status::unavailable("the GPU is lost"); });
  here->arrived(std::array{countFor(2)});
  EXPECT_EQ(counted(1, 0), 0u);
  EXPECT_THAT(std::string(abort->text()), HasSubstr("noting: receiving: the GPU is lost"));
}

} // namespace
} // namespace maestro::transport
