// Boards, reductions and exchanges between ranks that are threads or processes.
#include "test/transport/ranks.h"
#include "transport/local/board.h"
#include "transport/local/exchange.h"
#include "transport/local/local.h"
#include "transport/local/reduction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <utility>

namespace maestro::transport::test {
namespace {

using local::Board;
using local::BoardDescription;
using local::Reduction;
using local::ReductionDescription;
using testing::HasSubstr;

Status fail(const std::string &text) { return Status::internal(text); }

std::vector<uint32_t> firstRanks(uint32_t count) {
  std::vector<uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

class CollectivesTest : public testing::TestWithParam<RankKind> {
protected:
  void run(World &world, const std::function<Status(uint32_t)> &body) {
    Status status = world.run(GetParam(), body);
    EXPECT_TRUE(status.isOk()) << status.message();
  }
};

TEST_P(CollectivesTest, BoardsGiveEveryoneEverybodysRecord) {
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

/// What member `member` brings to call `call`: floats whose sum depends on the order.
std::vector<float> brought(uint32_t member, uint64_t call, uint64_t count) {
  std::mt19937 random(static_cast<uint32_t>(member * 1000 + call));
  std::normal_distribution<float> values(0, 1000);
  std::vector<float> list(count);
  for (float &value : list)
    value = values(random) + static_cast<float>(member) * 1e-3f;
  return list;
}

TEST_P(CollectivesTest, ExchangesSumInMemberOrderWhateverTheSizes) {
  for (uint32_t members : {2u, 3u, 5u}) {
    World world(members);
    auto exchange = local::Exchange::create(world.memory(), world.abort(), {"tensors", firstRanks(members), 4096});
    ASSERT_TRUE(exchange.isOk()) << exchange.status().message();
    run(world, [&](uint32_t rank) -> Status {
      local::Exchange::Member member = exchange->member(rank);
      std::mt19937 random(rank);
      for (uint64_t call = 0; call < 60; ++call) {
        uint64_t count = call % 4 == 0 ? 5000 + call : call * 7; // Several turns, one, none.
        std::vector<float> own = brought(rank, call, count), expected = brought(0, call, count), apart(count);
        for (uint32_t m = 1; m < members; ++m) {
          std::vector<float> theirs = brought(m, call, count);
          for (uint64_t i = 0; i < count; ++i)
            expected[i] += theirs[i];
        }
        if (random() % 8 == 0)
          usleep(random() % 300);
        bool inPlace = call % 2 == 0;
        float *result = inPlace ? own.data() : apart.data();
        MAESTRO_TRY(member.sum(own.data(), result, count, world.abort()));
        if (count > 0 && std::memcmp(result, expected.data(), count * sizeof(float)) != 0)
          return fail("call " + std::to_string(call) + ": another sum");
      }
      return {};
    });
  }
}

TEST_P(CollectivesTest, ExchangesJoinPartsRunByRun) {
  World world(3);
  auto exchange = local::Exchange::create(world.memory(), world.abort(), {"tensors", firstRanks(3), 64});
  run(world, [&](uint32_t rank) -> Status {
    local::Exchange::Member member = exchange->member(rank);
    for (auto [runs, runBytes] : {std::pair<uint64_t, uint64_t>{1, 300}, {7, 13}, {64, 1}, {3, 64}}) {
      std::vector<std::byte> own(runs * runBytes), all(3 * own.size());
      for (uint64_t i = 0; i < own.size(); ++i)
        own[i] = static_cast<std::byte>(i * 3 + rank);
      MAESTRO_TRY(member.gather(own.data(), all.data(), runs, runBytes, world.abort()));
      for (uint64_t run = 0; run < runs; ++run)
        for (uint32_t m = 0; m < 3; ++m)
          for (uint64_t i = 0; i < runBytes; ++i)
            if (all[(run * 3 + m) * runBytes + i] != static_cast<std::byte>((run * runBytes + i) * 3 + m))
              return fail("another byte in run " + std::to_string(run));
    }
    return {};
  });
}

TEST_P(CollectivesTest, ExchangesEndWithTheJob) {
  World world(2);
  auto exchange = local::Exchange::create(world.memory(), world.abort(), {"tensors", {0, 1}, 64});
  Status status = world.run(GetParam(), [&](uint32_t rank) -> Status {
    if (rank == 1)
      return fail("a device that never comes");
    local::Exchange::Member member = exchange->member(rank);
    float value = 1;
    return member.sum(&value, &value, 1, world.abort());
  });
  EXPECT_THAT(std::string(status.message()), HasSubstr("a device that never comes"));
}

TEST_P(CollectivesTest, BoardsKeepUnreadRecords) {
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

TEST_P(CollectivesTest, BoardsRefuseMisuse) {
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

/// A group whose members keep the same segments at different places, among bytes that are not theirs to touch.
struct Group {
  Group(uint32_t members, const std::vector<uint64_t> &counts, uint64_t stagingBytes) : world(members, 256 << 20) {
    description.name = "gradients";
    description.stagingBytes = stagingBytes;
    uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0}) + counts.size() * 8 + 8;
    for (uint32_t m = 0; m < members; ++m) {
      local::ReductionMember member{m, world.make<float>(total), {}};
      std::vector<size_t> order(counts.size());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), std::mt19937(m));
      member.segments.resize(counts.size());
      uint64_t at = 1 + m % 3;
      for (size_t segment : order) {
        member.segments[segment] = {at * sizeof(float), counts[segment]};
        at += counts[segment] + segment % 3;
      }
      description.members.push_back(member);
      memories.emplace_back(static_cast<float *>(member.base), total);
    }
  }

  /// Fills every member's memory; values of many sizes, so that the order of the sum shows in the bits.
  void fill(uint32_t m, uint64_t call) {
    std::mt19937 random(static_cast<uint32_t>(m * 1000 + call));
    for (float &value : memories[m])
      value = std::ldexp(static_cast<float>(static_cast<int32_t>(random())), static_cast<int>(random() % 40) - 50);
  }
  float &at(uint32_t m, size_t segment, uint64_t i) {
    return memories[m][description.members[m].segments[segment].offset / sizeof(float) + i];
  }

  World world;
  ReductionDescription description;
  std::vector<std::span<float>> memories;
};

/// The sums, in member order, as the obvious loop has them, beside the untouched rest: every member's whole memory.
std::vector<std::vector<float>> reduceNaively(Group &group) {
  std::vector<std::vector<float>> memories;
  for (auto memory : group.memories)
    memories.emplace_back(memory.begin(), memory.end());
  const auto &members = group.description.members;
  for (size_t s = 0; s < members[0].segments.size(); ++s)
    for (uint64_t i = 0; i < members[0].segments[s].count; ++i) {
      float sum = group.at(0, s, i);
      for (uint32_t m = 1; m < members.size(); ++m)
        sum += group.at(m, s, i);
      for (uint32_t m = 0; m < members.size(); ++m)
        memories[m][members[m].segments[s].offset / sizeof(float) + i] = sum;
    }
  return memories;
}

TEST_P(CollectivesTest, ReductionsSumInMemberOrder) {
  struct Case {
    uint32_t members;
    std::vector<uint64_t> counts;
    uint64_t stagingBytes;
  };
  const Case cases[] = {{1, {100}, 1 << 20},
                        {2, {1000, 1, 0, 777}, 1 << 20},
                        {2, {5}, 1 << 20},
                        {3, {4096, 33, 100000, 1}, 64 << 10},
                        {5, {12345, 1, 1, 1, 54321}, 16 << 10},
                        {3, {}, 1 << 20},
                        {16, {3000}, 4 << 10}};
  for (const Case &each : cases) {
    Group group(each.members, each.counts, each.stagingBytes);
    auto made = Reduction::create(group.world.memory(), group.world.abort(), group.description);
    ASSERT_TRUE(made.isOk()) << made.status().message();
    EXPECT_LE(Reduction::stagingBytesPerMember(group.description),
              std::max<uint64_t>(each.stagingBytes, each.members * 128));
    std::vector<Reduction::Member> handles;
    for (uint32_t m = 0; m < each.members; ++m)
      handles.push_back(made->member(m));
    for (uint64_t call = 0; call < 3; ++call) {
      for (uint32_t m = 0; m < each.members; ++m)
        group.fill(m, call);
      auto expected = reduceNaively(group);
      run(group.world, [&](uint32_t rank) { return handles[rank].reduce(call, group.world.abort()); });
      for (uint32_t m = 0; m < each.members; ++m)
        ASSERT_EQ(std::memcmp(expected[m].data(), group.memories[m].data(), group.memories[m].size_bytes()), 0)
            << each.members << " members, call " << call << ", member " << m;
    }
  }
}

TEST_P(CollectivesTest, SixtyFourMembersReduceInManyTurnsWithoutPause) {
  Group group(64, {2000, 48, 1000}, 64 << 10);
  auto made = Reduction::create(group.world.memory(), group.world.abort(), group.description);
  ASSERT_TRUE(made.isOk()) << made.status().message();
  for (uint32_t m = 0; m < 64; ++m)
    group.fill(m, 0);
  auto once = reduceNaively(group);
  run(group.world, [&](uint32_t rank) -> Status {
    Reduction::Member member = made->member(rank);
    for (uint64_t call = 0; call < 5; ++call) {
      MAESTRO_TRY(member.reduce(call, group.world.abort()));
      if (call < 4) // The next step's gradients, while others may still be in this one.
        group.fill(rank, 0);
    }
    return {};
  });
  for (uint32_t m = 0; m < 64; ++m)
    ASSERT_EQ(std::memcmp(once[m].data(), group.memories[m].data(), group.memories[m].size_bytes()), 0) << m;
}

TEST_P(CollectivesTest, ReductionsEndWithTheJob) {
  Group group(3, {1000}, 1 << 20);
  auto made = Reduction::create(group.world.memory(), group.world.abort(), group.description);
  int64_t start = nowNs();
  Status status = group.world.run(GetParam(), [&](uint32_t rank) -> Status {
    if (rank == 1) {
      usleep(5000);
      return fail("lost its mind");
    }
    return made->member(rank).reduce(0, group.world.abort());
  });
  EXPECT_EQ(status.message(), "rank 1: lost its mind");
  EXPECT_LT(nowNs() - start, 2'000'000'000);
}

TEST(Accounting, WhatIsAnnouncedIsWhatIsTaken) {
  World world(3);
  uint64_t before = world.memory().usedBytes();
  auto taken = [&] { return world.memory().usedBytes() - std::exchange(before, world.memory().usedBytes()); };
  BoardDescription board{"a board of some name", {0, 1, 2}, 2, 100, 3};
  ASSERT_TRUE(Board::create(world.memory(), world.abort(), board).isOk());
  EXPECT_EQ(taken(), Board::bytesNeeded(board));
  float *memory = world.make<float>(30'000);
  taken();
  ReductionDescription reduction{"gradients", {}, 8 << 10};
  for (uint32_t m = 0; m < 3; ++m)
    reduction.members.push_back({m, memory + m * 10'000, {{0, 9'999}}});
  ASSERT_TRUE(Reduction::create(world.memory(), world.abort(), reduction).isOk());
  EXPECT_EQ(taken(), Reduction::bytesNeeded(reduction));
  ChannelDescription channel;
  channel.name = "an edge";
  channel.producerRanks = {0, 1};
  channel.slots = 3;
  channel.slotBytes = 1001;
  channel.postsPerProducer = 5;
  auto backend = local::create(world.memory(), world.abort());
  ASSERT_TRUE(backend->createChannel(channel).isOk());
  EXPECT_EQ(taken(), local::channelBytes(channel));
}

TEST_P(CollectivesTest, ReductionPhasesOutOfOrderAreRefused) {
  Group group(2, {1000}, 1 << 10);
  auto made = Reduction::create(group.world.memory(), group.world.abort(), group.description);
  Reduction::Member first = made->member(0);
  EXPECT_GT(first.turns(), 3u);
  EXPECT_THAT(std::string(first.scatter(1).message()), HasSubstr("scattered out of order"));
  EXPECT_TRUE(first.scatter(0).isOk());
  EXPECT_THAT(std::string(first.gather(0).message()), HasSubstr("before the members' writes were awaited"));
  EXPECT_TRUE(first.scatter(1).isOk());
  EXPECT_THAT(std::string(first.scatter(2).message()), HasSubstr("before staging was awaited"));
}

TEST_P(CollectivesTest, ReductionsCheckTheirSegments) {
  World world(2);
  float *memory = world.make<float>(100), outside[10];
  auto message = [&](local::ReductionMember a, local::ReductionMember b) {
    return std::string(Reduction::create(world.memory(), world.abort(), {"g", {a, b}}).status().message());
  };
  EXPECT_THAT(message({0, memory, {{0, 5}}}, {1, memory, {{0, 5}, {20, 5}}}),
              HasSubstr("member 1 has 2 segments, member 0 1"));
  EXPECT_THAT(message({0, memory, {{0, 5}}}, {1, memory, {{20, 6}}}),
              HasSubstr("member 1, segment 0 has 6 floats, member 0 5"));
  EXPECT_THAT(message({0, memory, {{0, 5}}}, {1, memory, {{21, 5}}}), HasSubstr("not aligned"));
  EXPECT_THAT(message({0, memory, {{0, 5}}}, {1, outside, {{0, 5}}}), HasSubstr("not in the shared memory"));
}

INSTANTIATE_TEST_SUITE_P(All, CollectivesTest, testing::Values(RankKind::Threads, RankKind::Processes),
                         [](const auto &info) { return info.param == RankKind::Threads ? "Threads" : "Processes"; });

} // namespace
} // namespace maestro::transport::test
