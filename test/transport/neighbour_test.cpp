#include "transport/local/neighbour.h"

#include <gtest/gtest.h>

#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

namespace maestro::transport {
namespace {

/// Two ranks, each with memory of its own.
class NeighbourTest : public testing::Test {
protected:
  NeighbourTest() : plan(2) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      places.push_back(plan.reserve(rank, 4096));
      words.push_back(plan.reserveWords(rank, 3));
    }
    for (uint32_t rank = 0; rank < 2; ++rank) {
      memory.push_back(std::move(*SharedMemory::createOpen(plan.bytes(rank) + kPageBytes)));
      (void)*memory.back()->allocate(64, "something before");
      segments.push_back(*Segments::create(*memory.back(), plan, {rank, rank + 1}));
    }
    card = NeighbourCard::of(*memory[1], segments[1]);
  }
  std::string refusal(const NeighbourCard &of, RankRange ranks = {1, 2}) {
    auto opened = openNeighbour(of, ranks, segments[0]);
    return opened ? "" : std::string(opened.status().message());
  }

  SegmentPlan plan;
  std::vector<Place> places;
  std::vector<WordPlace> words;
  std::vector<std::unique_ptr<SharedMemory>> memory;
  std::vector<Segments> segments;
  NeighbourCard card;
};

TEST_F(NeighbourTest, AProcessThatWasNotForkedWithItWritesThere) {
  pid_t child = fork(); // A descriptor is opened anew, by the parent's number.
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto theirs = openNeighbour(*decodeNeighbourCard(encode(card)), {1, 2}, segments[0]);
    if (!theirs)
      _exit(1);
    enter(card, **theirs, segments[0]);
    std::memcpy(segments[0].target(places[1]).memory, "hello", 6);
    signal(segments[0].target(words[1] + 2), 7);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  EXPECT_STREQ(reinterpret_cast<const char *>(segments[1].at(places[1])), "hello");
  EXPECT_EQ(segments[1].word(words[1] + 2)->value.load(), 7u);
  EXPECT_EQ(segments[0].target(places[1]).memory, nullptr) << "this process has not opened it";
}

TEST_F(NeighbourTest, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(refusal(card), "");
  auto with = [&](auto change) {
    NeighbourCard other = card;
    change(other);
    return refusal(other);
  };
  const char *ranks = "is not of ranks 1 to 1";
  EXPECT_NE(with([](auto &c) { c.segments[0].rank = 0; }).find(ranks), std::string::npos);
  EXPECT_NE(with([](auto &c) { c.segments[0].offset += 1; }).find(ranks), std::string::npos);
  EXPECT_NE(with([](auto &c) { c.segments[0].offset = ~uint64_t{63}; }).find(ranks), std::string::npos);
  EXPECT_NE(with([](auto &c) { c.segments[0].bytes -= 64; }).find(ranks), std::string::npos);
  EXPECT_NE(with([](auto &c) { c.segments.clear(); }).find(ranks), std::string::npos);
  EXPECT_NE(with([](auto &c) { c.pidNamespace += 1; }).find("PID namespace"), std::string::npos);
  EXPECT_NE(with([](auto &c) { c.descriptor = 100000; }).find("/fd/100000: No such file"), std::string::npos);
  EXPECT_NE(with([](auto &c) { c.descriptor = 0; }).find("is not the memory"), std::string::npos);
  EXPECT_NE(with([](auto &c) { c.inode += 1; }).find("is not the memory"), std::string::npos);
  EXPECT_NE(with([](auto &c) { c.bytes += 4096; }).find("is not the memory"), std::string::npos);
}

TEST_F(NeighbourTest, ACardIsReadWholeOrNotAtAll) {
  std::vector<std::byte> bytes = encode(card);
  EXPECT_EQ(encode(*decodeNeighbourCard(bytes)), bytes);
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decodeNeighbourCard(std::span(bytes).first(size))) << size;
  bytes.push_back(std::byte{0});
  EXPECT_FALSE(decodeNeighbourCard(bytes));
}

} // namespace
} // namespace maestro::transport
