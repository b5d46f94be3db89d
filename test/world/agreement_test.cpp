// What all ranks tell all ranks by their hosts, as threads, as processes and over a network.
#include "executor/world/agreement.h"
#include "test/world/devices.h"

#include <gtest/gtest.h>

#include <random>
#include <unistd.h>

namespace maestro::executor::test {
namespace {

class AgreementTest : public testing::TestWithParam<RankKind> {
protected:
  void make(uint32_t members, uint32_t kinds, uint32_t bytes) {
    memory.reset(); // Its threads look at the world.
    world = std::make_unique<World>(members);
    memory = std::make_unique<Memory>(*world);
    std::vector<uint32_t> ranks;
    for (uint32_t rank = 0; rank < members; ++rank)
      ranks.push_back(rank);
    agreement = *Agreement::plan(memory->plan, {"norms", ranks, kinds, bytes});
    memory->make(GetParam());
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

TEST_P(AgreementTest, EveryoneHasEverybodysRecord) {
  for (uint32_t members : {1u, 2u, 5u}) {
    make(members, 2, 512);
    run([&](uint32_t rank) -> Status {
      Agreement::Member own = member(rank);
      std::mt19937 random(rank);
      for (uint64_t step = 7; step < 107; ++step) {
        double mine[3] = {static_cast<double>(step), static_cast<double>(rank), 0.5};
        uint64_t hash = step * 77;
        MAESTRO_TRY(own.publish<double>(step, 0, mine, abort()));
        if (random() % 4 == 0)
          usleep(random() % 200);
        MAESTRO_TRY(own.publish<uint64_t>(step, 1, {&hash, 1}, abort()));
        std::vector<double> all(members * 3);
        std::vector<uint64_t> hashes(members);
        MAESTRO_TRY(own.awaitAll<uint64_t>(step, 1, hashes, abort())); // Kinds are independent of each other.
        MAESTRO_TRY(own.awaitAll<double>(step, 0, all, abort()));
        for (uint32_t m = 0; m < members; ++m)
          if (all[m * 3] != static_cast<double>(step) || all[m * 3 + 1] != m || all[m * 3 + 2] != 0.5 ||
              hashes[m] != hash)
            return fail("step " + std::to_string(step) + ": another record of member " + std::to_string(m));
      }
      return {};
    });
  }
}

TEST_P(AgreementTest, OthersStepsAndSizesAreRefused) {
  auto cause = [&](uint64_t step, size_t count) {
    make(2, 1, 64);
    return std::string(world
                           ->run(GetParam(),
                                 [&](uint32_t rank) -> Status {
                                   Agreement::Member own = member(rank);
                                   std::vector<uint64_t> mine(rank == 0 ? 1 : count), all(2);
                                   MAESTRO_TRY(own.publish<uint64_t>(rank == 0 ? 3 : step, 0, mine, abort()));
                                   return rank == 0 ? own.awaitAll<uint64_t>(3, 0, all, abort()) : Status();
                                 })
                           .message());
  };
  EXPECT_NE(cause(4, 1).find("rank 1 published 8 bytes of step 4 instead of 8"), std::string::npos);
  EXPECT_NE(cause(3, 2).find("rank 1 published 16 bytes of step 3 instead of 8"), std::string::npos);
}

TEST_P(AgreementTest, MisuseIsRefused) {
  make(2, 1, 16);
  run([&](uint32_t rank) -> Status {
    Agreement::Member own = member(rank);
    uint64_t record[3] = {1, 2, 3}, both[4];
    auto named = [](Status status, const char *text) {
      return status.message().find(text) == std::string_view::npos
                 ? fail("expected '" + std::string(text) + "', got " + std::string(status.message()))
                 : Status();
    };
    MAESTRO_TRY(named(own.publish<uint64_t>(0, 0, record, abort()), "24 bytes; there are 1 kinds of at most 16"));
    MAESTRO_TRY(named(own.publish<uint64_t>(0, 1, {record, 1}, abort()), "kind 1"));
    MAESTRO_TRY(named(own.awaitAll<uint64_t>(0, 0, both, abort()), "before its own record was published"));
    MAESTRO_TRY(own.publish<uint64_t>(1, 0, {record, 2}, abort()));
    MAESTRO_TRY(named(own.publish<uint64_t>(2, 0, {record, 2}, abort()), "before the last one was read"));
    MAESTRO_TRY(named(own.awaitAll(1, 0, std::as_writable_bytes(std::span(record)).first(15), abort()),
                      "15 bytes do not hold equal records of 2"));
    return own.awaitAll<uint64_t>(1, 0, both, abort());
  });
}

TEST_P(AgreementTest, WaitsEndWithTheJob) {
  make(2, 1, 16);
  Status status = world->run(GetParam(), [&](uint32_t rank) -> Status {
    if (rank == 1)
      return fail("a rank that never comes");
    Agreement::Member own = member(rank);
    uint64_t mine = 1, all[2];
    MAESTRO_TRY(own.publish<uint64_t>(1, 0, {&mine, 1}, abort()));
    return own.awaitAll<uint64_t>(1, 0, all, abort());
  });
  EXPECT_EQ(status.message(), "rank 1: a rank that never comes");
}

INSTANTIATE_TEST_SUITE_P(All, AgreementTest,
                         testing::Values(RankKind::Threads, RankKind::Processes, RankKind::Networked),
                         [](const auto &info) { return nameOf(info.param); });

} // namespace
} // namespace maestro::executor::test
