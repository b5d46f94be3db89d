// What all ranks tell all ranks by their hosts, as threads, as processes and over a network.
#include "executor/world/agreement.h"
#include "test/world/devices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <unistd.h>

namespace maestro::executor::test {
namespace {

class AgreementTest : public testing::TestWithParam<RankKind> {
protected:
  void make(uint32_t members, uint32_t values, uint32_t fanOut = 16) {
    memory.reset(); // Its threads look at the world.
    world = std::make_unique<World>(members);
    memory = std::make_unique<Memory>(*world);
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < members; ++rank)
      ranks.push_back(rank);
    agreement = *Agreement::plan(memory->plan, {"norms", "schedules", ranks, values, fanOut});
    memory->make(GetParam(), DeviceKind::Prompt);
  }
  Agreement::Member member(uint32_t rank) { return agreement.member(memory->of(rank), rank); }
  const transport::Abort &abort() { return world->abort(); }
  void run(const std::function<Status(uint32_t)> &body) {
    Status status = world->run(GetParam(), body);
    EXPECT_TRUE(status.isOk()) << status.message();
  }

  std::unique_ptr<World> world;
  std::unique_ptr<Memory> memory;
  Agreement agreement;
};

TEST_P(AgreementTest, EveryoneHasTheSum) {
  for (auto [members, fanOut] : {std::pair{1u, 16u}, {2u, 16u}, {5u, 16u}, {7u, 2u}, {4u, 1u}}) {
    make(members, 3, fanOut);
    run([&, members = members](uint32_t rank) -> Status {
      Agreement::Member own = member(rank);
      std::mt19937 random(rank);
      for (uint64_t step = 7; step < 107; ++step) {
        double mine[3] = {static_cast<double>(step), static_cast<double>(rank), 0.5}, all[3];
        MAESTRO_TRY(own.publish(step, step * 77, mine, abort()));
        if (random() % 4 == 0)
          usleep(random() % 200);
        MAESTRO_TRY(own.await(step, all, abort()));
        if (all[0] != static_cast<double>(step * members) || all[1] != members * (members - 1) / 2.0 ||
            all[2] != members * 0.5)
          return fail("step " + std::to_string(step) + ": another sum");
      }
      return {};
    });
  }
}

/// Members that do other things between publish() and await() hold nobody up: here they await when all others have.
TEST_P(AgreementTest, NobodyWaitsForAwait) {
  constexpr uint32_t kMembers = 7, kLate = 3;
  if (GetParam() == RankKind::Processes)
    GTEST_SKIP() << "the members look at one counter";
  make(kMembers, 1, 2);
  std::atomic<uint32_t> prompt[kLate]{};
  run([&](uint32_t rank) -> Status {
    Agreement::Member own = member(rank);
    for (uint32_t step = 0; step < kLate; ++step) {
      bool isLate = rank % kLate == step; // Roots of blocks, and leaves.
      uint32_t others = 0;
      for (uint32_t other = 0; other < kMembers; ++other)
        others += other % kLate != step;
      double mine = 1, all = 0;
      MAESTRO_TRY(own.publish(step, 0, {&mine, 1}, abort()));
      for (int waited = 0; isLate && prompt[step] < others; ++waited, usleep(1000))
        if (waited > 20'000)
          return fail("the others have no result after 20 s");
      MAESTRO_TRY(own.await(step, {&all, 1}, abort()));
      prompt[step] += !isLate;
      if (all != kMembers)
        return fail("another sum");
    }
    return {};
  });
}

/// In the order of members, whatever comes first: the same bits every time.
TEST_P(AgreementTest, CombinesInTheOrderOfMembers) {
  constexpr uint32_t kMembers = 9;
  make(kMembers, kMembers, 2);
  Combine append = [](std::span<double> into, std::span<const double> theirs) {
    auto end = std::find(into.begin(), into.end(), 0.0);
    for (double value : theirs)
      if (value != 0 && end != into.end())
        *end++ = value;
  };
  run([&](uint32_t rank) -> Status {
    Agreement::Member own = member(rank);
    for (uint64_t step = 0; step < 20; ++step) {
      std::vector<double> record(kMembers), all(kMembers);
      record[0] = rank + 1;
      usleep((kMembers - rank) * 100 % 700);
      MAESTRO_TRY(own.publish(step, 0, record, abort(), append));
      MAESTRO_TRY(own.await(step, all, abort()));
      for (uint32_t m = 0; m < kMembers; ++m)
        if (all[m] != m + 1)
          return fail("another order");
    }
    return {};
  });
}

TEST_P(AgreementTest, OthersStepsSizesAndKeysAreRefused) {
  auto cause = [&](uint64_t step, size_t count, uint64_t key) {
    make(2, 8);
    return std::string(world
                           ->run(GetParam(),
                                 [&](uint32_t rank) -> Status {
                                   Agreement::Member own = member(rank);
                                   std::vector<double> mine(rank == 0 ? 1 : count), all(1);
                                   MAESTRO_TRY(own.publish(rank == 0 ? 3 : step, rank == 0 ? 5 : key, mine, abort()));
                                   return rank == 0 ? own.await(3, all, abort()) : Status();
                                 })
                           .message());
  };
  EXPECT_NE(cause(4, 1, 5).find("rank 1 published 1 values of step 4 instead of 1"), std::string::npos);
  EXPECT_NE(cause(3, 2, 5).find("rank 1 published 2 values of step 3 instead of 1"), std::string::npos);
  EXPECT_NE(cause(3, 1, 6).find("step 3: rank 0 and rank 1 have different schedules"), std::string::npos);
}

TEST_P(AgreementTest, MisuseIsRefused) {
  make(2, 2);
  run([&](uint32_t rank) -> Status {
    Agreement::Member own = member(rank);
    double record[3] = {1, 2, 3};
    auto named = [](Status status, const char *text) {
      return status.message().find(text) == std::string_view::npos
                 ? fail("expected '" + std::string(text) + "', got " + std::string(status.message()))
                 : Status();
    };
    MAESTRO_TRY(named(own.publish(0, 0, record, abort()), "3 values; at most 2"));
    MAESTRO_TRY(named(own.await(0, {record, 2}, abort()), "before its own record was published"));
    MAESTRO_TRY(own.publish(1, 0, {record, 2}, abort()));
    MAESTRO_TRY(named(own.publish(2, 0, {record, 2}, abort()), "before the last one's result was read"));
    return own.await(1, {record, 2}, abort());
  });
}

TEST_P(AgreementTest, WaitsEndWithTheJob) {
  make(2, 1);
  Status status = world->run(GetParam(), [&](uint32_t rank) -> Status {
    if (rank == 1)
      return fail("a rank that never comes");
    Agreement::Member own = member(rank);
    double mine = 1, all;
    MAESTRO_TRY(own.publish(1, 0, {&mine, 1}, abort()));
    return own.await(1, {&all, 1}, abort());
  });
  EXPECT_EQ(status.message(), "rank 1: a rank that never comes");
}

INSTANTIATE_TEST_SUITE_P(All, AgreementTest,
                         testing::Values(RankKind::Threads, RankKind::Processes, RankKind::Mapped, RankKind::Networked),
                         [](const auto &info) { return nameOf(info.param); });

} // namespace
} // namespace maestro::executor::test
