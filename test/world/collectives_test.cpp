// Sums of gradients, and sums and gathers inside programs, between ranks that are threads, processes or machines, on
// devices that complete at once and late.
#include "executor/world/exchange.h"
#include "executor/world/reduction.h"
#include "plan/sum_turns.h"
#include "test/world/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <unistd.h>
#include <utility>

namespace maestro::executor::test {
namespace {

using testing::HasSubstr;

std::vector<uint32_t> firstRanks(uint32_t count) {
  std::vector<uint32_t> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

class CollectivesTest : public testing::TestWithParam<Setting> {
protected:
  void run(World &world, const std::function<Status(uint32_t)> &body) {
    Status status = world.run(std::get<1>(GetParam()), body);
    EXPECT_TRUE(status.isOk()) << status.message();
  }
  std::unique_ptr<Device> device(const World &world, uint32_t rank) {
    return createDevice(std::get<0>(GetParam()), world, rank);
  }
};

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
    if (members > mostRanks(GetParam()))
      continue;
    World world(members);
    Memory memory(world);
    auto exchange = Exchange::plan(memory.plan, {"tensors", firstRanks(members), 4096});
    ASSERT_TRUE(exchange.isOk()) << exchange.status().message();
    memory.make(std::get<1>(GetParam()), std::get<0>(GetParam()));
    run(world, [&](uint32_t rank) -> Status {
      auto own = device(world, rank);
      MAESTRO_ASSIGN(Exchange::Member member, exchange->member(memory.of(rank), rank, *own));
      MAESTRO_ASSIGN(Address values, own->allocate(6000 * 4, "test"));
      MAESTRO_ASSIGN(Address apart, own->allocate(6000 * 4, "test"));
      for (uint64_t call = 0; call < 16; ++call) {
        uint64_t count = call % 4 == 0 ? 5000 + call : call * 7; // Several turns, one, none.
        std::vector<float> mine = brought(rank, call, count), expected = brought(0, call, count), found(count);
        for (uint32_t m = 1; m < members; ++m) {
          std::vector<float> theirs = brought(m, call, count);
          for (uint64_t i = 0; i < count; ++i)
            expected[i] += theirs[i];
        }
        Address result = call % 2 == 0 ? values : apart;
        own->write(Queue::Compute, values, mine.data(), count * 4);
        member.sum(Queue::Compute, values, result, count);
        own->read(Queue::Compute, found.data(), result, count * 4);
        MAESTRO_TRY(own->drain());
        if (found != expected)
          return fail("call " + std::to_string(call) + ": another sum");
      }
      return {};
    });
  }
}

TEST_P(CollectivesTest, ExchangesJoinPartsRunByRun) {
  World world(3);
  Memory memory(world);
  auto exchange = Exchange::plan(memory.plan, {"tensors", firstRanks(3), 64});
  memory.make(std::get<1>(GetParam()), std::get<0>(GetParam()));
  run(world, [&](uint32_t rank) -> Status {
    auto own = device(world, rank);
    MAESTRO_ASSIGN(Exchange::Member member, exchange->member(memory.of(rank), rank, *own));
    MAESTRO_ASSIGN(Address part, own->allocate(512, "test"));
    MAESTRO_ASSIGN(Address whole, own->allocate(3 * 512, "test"));
    for (auto [runs, runBytes] : {std::pair<uint64_t, uint64_t>{1, 300}, {7, 13}, {64, 1}, {3, 64}, {0, 5}, {5, 0}}) {
      std::vector<std::byte> mine(runs * runBytes), all(3 * mine.size());
      for (uint64_t i = 0; i < mine.size(); ++i)
        mine[i] = static_cast<std::byte>(i * 3 + rank);
      own->write(Queue::Compute, part, mine.data(), mine.size());
      member.gather(Queue::Compute, part, whole, runs, runBytes);
      own->read(Queue::Compute, all.data(), whole, all.size());
      MAESTRO_TRY(own->drain());
      for (uint64_t run = 0; run < runs; ++run)
        for (uint32_t m = 0; m < 3; ++m)
          for (uint64_t i = 0; i < runBytes; ++i)
            if (all[(run * 3 + m) * runBytes + i] != static_cast<std::byte>((run * runBytes + i) * 3 + m))
              return fail("run " + std::to_string(run) + " of member " + std::to_string(m) + " is not in its place");
    }
    return {};
  });
}

TEST_P(CollectivesTest, ExchangesEndWithTheJob) {
  World world(2);
  Memory memory(world);
  auto exchange = Exchange::plan(memory.plan, {"tensors", {0, 1}, 64});
  memory.make(std::get<1>(GetParam()), std::get<0>(GetParam()));
  Status status = world.run(std::get<1>(GetParam()), [&](uint32_t rank) -> Status {
    if (rank == 1)
      return fail("a device that never comes");
    auto own = device(world, rank);
    MAESTRO_ASSIGN(Exchange::Member member, exchange->member(memory.of(rank), rank, *own));
    MAESTRO_ASSIGN(Address value, own->allocate(4, "test"));
    member.sum(Queue::Compute, value, value, 1);
    return own->drain();
  });
  EXPECT_THAT(std::string(status.message()), HasSubstr("a device that never comes"));
}

/// A group whose members keep the same segments at different places, among bytes that are not theirs to touch.
struct Group {
  Group(const Setting &setting, const std::vector<uint32_t> &degrees, const std::vector<uint64_t> &counts,
        uint64_t stagingBytes)
      : world(plan::SumStages(degrees).members(), 256 << 20), memory(world) {
    uint32_t members = plan::SumStages(degrees).members();
    description.name = "gradients";
    description.degrees = degrees;
    description.stagingBytes = stagingBytes;
    uint64_t total = std::accumulate(counts.begin(), counts.end(), uint64_t{0}) + counts.size() * 8 + 8;
    for (uint32_t m = 0; m < members; ++m) {
      ReductionMember member{memory.plan.reserve(m, total * sizeof(float)), {}};
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
    }
    reduction = *Reduction::plan(memory.plan, description);
    memory.make(std::get<1>(setting), std::get<0>(setting));
    for (const ReductionMember &member : description.members)
      memories.emplace_back(memory.of(member.base.rank).as<float>(member.base), total);
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
  Memory memory;
  ReductionDescription description;
  Reduction reduction;
  std::vector<std::span<float>> memories;
};

/// Stage by stage: consecutive values are added up in their order.
float sumInStages(std::vector<float> values, const std::vector<uint32_t> &degrees) {
  for (uint32_t degree : degrees) {
    std::vector<float> sums;
    for (size_t first = 0; first < values.size(); first += degree)
      sums.push_back(std::accumulate(values.begin() + first + 1, values.begin() + first + degree, values[first]));
    values = std::move(sums);
  }
  return values[0];
}

/// The sums, in member order, as the obvious loop has them, beside the untouched rest: every member's whole memory.
std::vector<std::vector<float>> reduceNaively(Group &group) {
  std::vector<std::vector<float>> memories;
  for (auto memory : group.memories)
    memories.emplace_back(memory.begin(), memory.end());
  const auto &members = group.description.members;
  for (size_t s = 0; s < members[0].segments.size(); ++s)
    for (uint64_t i = 0; i < members[0].segments[s].count; ++i) {
      std::vector<float> values;
      for (uint32_t m = 0; m < members.size(); ++m)
        values.push_back(group.at(m, s, i));
      float sum = sumInStages(values, group.description.degrees);
      for (uint32_t m = 0; m < members.size(); ++m)
        memories[m][members[m].segments[s].offset / sizeof(float) + i] = sum;
    }
  return memories;
}

TEST_P(CollectivesTest, ReductionsSumInTheOrderOfMembersAndStages) {
  struct Case {
    std::vector<uint32_t> degrees;
    std::vector<uint64_t> counts;
    uint64_t stagingBytes;
  };
  const Case cases[] = {{{}, {100}, 1 << 20},
                        {{2}, {1000, 1, 0, 777}, 1 << 20},
                        {{2}, {5}, 1 << 20},
                        {{3}, {4096, 33, 100000, 1}, 64 << 10},
                        {{5}, {12345, 1, 1, 1, 54321}, 16 << 10},
                        {{3}, {}, 1 << 20},
                        {{2, 2}, {1000, 1, 0, 777}, 1 << 20},
                        {{2, 3}, {4096, 33, 10000, 1}, 16 << 10},
                        {{2, 2, 2}, {5000, 70, 3}, 16 << 10},
                        {{16}, {3000}, 4 << 10}};
  for (const Case &each : cases) {
    uint32_t members = plan::SumStages(each.degrees).members();
    if (members > mostRanks(GetParam()))
      continue;
    Group group(GetParam(), each.degrees, each.counts, each.stagingBytes);
    uint64_t leastBytes = members * 64 * 2 * std::max<uint64_t>(1, each.degrees.size());
    EXPECT_LE(group.reduction.stagingBytes(), std::max<uint64_t>(each.stagingBytes, leastBytes));
    for (uint32_t m = 0; m < members; ++m)
      group.fill(m, 0);
    auto expected = reduceNaively(group);
    run(group.world, [&](uint32_t rank) -> Status {
      auto own = device(group.world, rank);
      MAESTRO_ASSIGN(Reduction::Member member, group.reduction.member(group.memory.of(rank), rank, *own));
      for (uint64_t call = 0; call < 3; ++call) { // The next step's gradients, while others may still be in this one.
        if (call > 0)
          group.fill(rank, 0);
        MAESTRO_TRY(member.reduce(Queue::Compute, call));
        MAESTRO_TRY(own->drain());
      }
      return {};
    });
    for (uint32_t m = 0; m < members; ++m)
      ASSERT_EQ(std::memcmp(expected[m].data(), group.memories[m].data(), group.memories[m].size_bytes()), 0)
          << members << " members in " << each.degrees.size() << " stages, member " << m;
  }
}

TEST_P(CollectivesTest, ManyMembersReduceInManyTurns) {
  // A late device has four threads, and each of their copies waits.
  bool isSlow = std::get<0>(GetParam()) != DeviceKind::Prompt || std::get<1>(GetParam()) == RankKind::Networked;
  uint32_t members = std::min(isSlow ? 8u : 64u, mostRanks(GetParam())); // A network of 64 is 4,032 connections.
  Group group(GetParam(), members == 64 ? std::vector<uint32_t>{4, 4, 4} : std::vector<uint32_t>{members},
              {2000, 48, 1000}, 64 << 10);
  for (uint32_t m = 0; m < members; ++m)
    group.fill(m, 0);
  auto once = reduceNaively(group);
  run(group.world, [&](uint32_t rank) -> Status {
    auto own = device(group.world, rank);
    MAESTRO_ASSIGN(Reduction::Member member, group.reduction.member(group.memory.of(rank), rank, *own));
    MAESTRO_TRY(member.reduce(Queue::Compute, 0));
    return own->drain();
  });
  for (uint32_t m = 0; m < members; ++m)
    ASSERT_EQ(std::memcmp(once[m].data(), group.memories[m].data(), group.memories[m].size_bytes()), 0) << m;
}

TEST_P(CollectivesTest, ReductionsEndWithTheJob) {
  Group group(GetParam(), {3}, {1000}, 1 << 20);
  int64_t start = transport::nowNs();
  Status status = group.world.run(std::get<1>(GetParam()), [&](uint32_t rank) -> Status {
    if (rank == 1) {
      usleep(5000);
      return fail("lost its mind");
    }
    auto own = device(group.world, rank);
    MAESTRO_ASSIGN(Reduction::Member member, group.reduction.member(group.memory.of(rank), rank, *own));
    MAESTRO_TRY(member.reduce(Queue::Compute, 0));
    return own->drain();
  });
  EXPECT_EQ(status.message(), "rank 1: lost its mind");
  EXPECT_LT(transport::nowNs() - start, 2'000'000'000);
}

TEST_P(CollectivesTest, ReductionPhasesOutOfOrderAreRefused) {
  Group group(GetParam(), {2}, {1000}, 1 << 10);
  auto own = device(group.world, 0);
  Reduction::Member first = *group.reduction.member(group.memory.of(0), 0, *own);
  EXPECT_GT(first.turns(), 3u);
  auto refused = HasSubstr("out of order");
  EXPECT_THAT(std::string(first.work(Queue::Compute, 0, 1).message()), refused);
  EXPECT_THAT(std::string(first.work(Queue::Compute, 1, 0).message()), refused);
  EXPECT_TRUE(first.work(Queue::Compute, 0, 0).isOk());
}

INSTANTIATE_TEST_SUITE_P(All, CollectivesTest, kSettings, settingName);
#ifdef MAESTRO_CUDA
INSTANTIATE_TEST_SUITE_P(Nccl, CollectivesTest, kNcclSettings, settingName);
INSTANTIATE_TEST_SUITE_P(DmaBuf, CollectivesTest, kDmaBufSettings, settingName);
#endif

TEST(Reductions, CheckTheirSegments) {
  auto message = [&](std::vector<ReductionSegment> a, std::vector<ReductionSegment> b) {
    transport::SegmentPlan plan(2);
    transport::Place bases[] = {plan.reserve(0, 128), plan.reserve(1, 128)};
    return std::string(Reduction::plan(plan, {"g", {{bases[0], a}, {bases[1], b}}}).status().message());
  };
  EXPECT_THAT(message({{0, 5}}, {{0, 5}, {20, 5}}), HasSubstr("member 1 has 2 segments, member 0 1"));
  EXPECT_THAT(message({{0, 5}}, {{20, 6}}), HasSubstr("member 1, segment 0 has 6 floats, member 0 5"));
  EXPECT_THAT(message({{0, 5}}, {{21, 5}}), HasSubstr("not aligned"));
  EXPECT_THAT(message({{0, 5}}, {{112, 5}}), HasSubstr("not in its memory"));
  transport::SegmentPlan plan(2);
  ReductionDescription description{"g", {{plan.reserve(0, 128), {{0, 5}}}, {plan.reserve(1, 128), {{0, 5}}}}};
  description.degrees = {2, 2};
  EXPECT_THAT(std::string(Reduction::plan(plan, description).status().message()),
              HasSubstr("stages of 2, 2 do not make 2 members"));
}

} // namespace
} // namespace maestro::executor::test
