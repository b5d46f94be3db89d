// Boards between ranks that are threads or processes.
#include "test/transport/ranks.h"
#include "transport/local/board.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace maestro::transport::test {
namespace {

using local::Board;
using local::BoardDescription;
Status fail(const std::string &text) { return Status::internal(text); }

std::vector<uint32_t> firstRanks(uint32_t count) {
  std::vector<uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

class BoardTest : public testing::TestWithParam<RankKind> {
protected:
  void run(World &world, const std::function<Status(uint32_t)> &body) {
    Status status = world.run(GetParam(), body);
    EXPECT_TRUE(status.isOk()) << status.message();
  }
};

TEST_P(BoardTest, BoardsGiveEveryoneEverybodysRecord) {
  for (uint32_t members : {1u, 2u, 5u}) {
    World world(members);
    auto board = Board::create(world.memory(), world.abort(), {"norms", firstRanks(members), 2, 512, 3});
    ASSERT_TRUE(board.isOk()) << board.status().message();
    run(world, [&](uint32_t rank) -> Status {
      Board::Member member = board->member(rank);
      std::mt19937 random(rank);
      for (uint64_t step = 7; step < 107; ++step) {
        double mine[3] = {static_cast<double>(step), static_cast<double>(rank), 0.5};
        uint64_t hash = step * 77;
        MAESTRO_TRY(member.publish<double>(step, 0, mine, world.abort()));
        if (random() % 4 == 0)
          usleep(random() % 200);
        MAESTRO_TRY(member.publish<uint64_t>(step, 1, {&hash, 1}, world.abort()));
        std::vector<double> all(members * 3);
        std::vector<uint64_t> hashes(members);
        MAESTRO_TRY(member.awaitAll<uint64_t>(step, 1, hashes, world.abort())); // Kinds are independent of each other.
        MAESTRO_TRY(member.awaitAll<double>(step, 0, all, world.abort()));
        for (uint32_t m = 0; m < members; ++m)
          if (all[m * 3] != step || all[m * 3 + 1] != m || all[m * 3 + 2] != 0.5 || hashes[m] != hash)
            return fail("step " + std::to_string(step) + ": another record of member " + std::to_string(m));
      }
      return {};
    });
  }
}

TEST_P(BoardTest, BoardsKeepUnreadRecords) {
  World world(2);
  auto board = Board::create(world.memory(), world.abort(), {"norms", {0, 1}, 1, 8, 2});
  auto *published = world.make<std::atomic<uint64_t>>(1);
  run(world, [&](uint32_t rank) -> Status {
    Board::Member member = board->member(rank);
    if (rank == 0) { // Runs ahead, and is held after two steps.
      for (uint64_t step = 0; step < 20; ++step) {
        MAESTRO_TRY(member.publish<uint64_t>(step, 0, {&step, 1}, world.abort()));
        *published = step + 1;
      }
      return {};
    }
    for (uint64_t step = 0; step < 20; ++step) {
      usleep(500);
      if (*published > step + 2)
        return fail("published over an unread record");
      uint64_t found;
      MAESTRO_TRY(member.await(step, 0, 0, std::as_writable_bytes(std::span(&found, 1)), world.abort()));
      if (found != step)
        return fail("another record");
    }
    return {};
  });
}

TEST_P(BoardTest, BoardsRefuseMisuse) {
  World world(2);
  auto board = Board::create(world.memory(), world.abort(), {"norms", {0, 1}, 1, 16, 2});
  run(world, [&](uint32_t rank) -> Status {
    Board::Member member = board->member(rank);
    uint64_t record[3] = {1, 2, 3};
    auto named = [](Status status, const char *text) {
      return status.message().find(text) == std::string_view::npos
                 ? fail("expected '" + std::string(text) + "', got " + std::string(status.message()))
                 : Status();
    };
    MAESTRO_TRY(
        named(member.publish<uint64_t>(0, 0, record, world.abort()), "24 bytes; the board has 1 kinds of at most 16"));
    MAESTRO_TRY(named(member.publish<uint64_t>(0, 1, {record, 1}, world.abort()), "kind 1"));
    MAESTRO_TRY(member.publish<uint64_t>(1, 0, {record, 2}, world.abort()));
    MAESTRO_TRY(named(member.publish<uint64_t>(1, 0, {record, 2}, world.abort()), "published after step 1"));
    MAESTRO_TRY(named(member.awaitAll<uint64_t>(1, 0, {record, 2}, world.abort()), "published 16 bytes instead of 8"));
    uint64_t both[4];
    MAESTRO_TRY(member.awaitAll<uint64_t>(1, 0, both, world.abort()));
    return named(member.awaitAll<uint64_t>(1, 0, both, world.abort()), "read after step 1");
  });
}

TEST(Accounting, WhatABoardAnnouncesIsWhatItTakes) {
  World world(3);
  uint64_t before = world.memory().usedBytes();
  BoardDescription board{"a board of some name", {0, 1, 2}, 2, 100, 3};
  ASSERT_TRUE(Board::create(world.memory(), world.abort(), board).isOk());
  EXPECT_EQ(world.memory().usedBytes() - before, Board::bytesNeeded(board));
}

INSTANTIATE_TEST_SUITE_P(All, BoardTest, testing::Values(RankKind::Threads, RankKind::Processes),
                         [](const auto &info) { return info.param == RankKind::Threads ? "Threads" : "Processes"; });

} // namespace
} // namespace maestro::transport::test
