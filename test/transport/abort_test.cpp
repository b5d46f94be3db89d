// Shared memory, the one cause of an abort, and what a watcher can say about ranks that do not get on.
#include "test/transport/ranks.h"
#include "transport/wait.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace maestro::transport::test {
namespace {

using testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

TEST(SharedMemory, GivesAlignedZerosAndNamesWhatDoesNotFit) {
  auto memory = std::move(*SharedMemory::create(10'000, true));
  EXPECT_EQ(memory->bytes() % 4096, 0u);
  auto first = memory->allocate(100, "first");
  auto second = memory->allocate(1, "second");
  ASSERT_TRUE(first.isOk() && second.isOk());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(*second) - reinterpret_cast<uintptr_t>(*first), 128u);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(static_cast<char *>(*first)[i], 0);
  EXPECT_TRUE(memory->contains(*second));
  EXPECT_FALSE(memory->contains(&first));
  auto third = memory->allocate(1 << 20, "channel 'h': payload");
  EXPECT_EQ(third.status().message(),
            "shared memory: 'channel 'h': payload' needs 1048576 bytes and 12096 of 12288 are left after "
            "2 blocks; reserve more at creation");
  EXPECT_FALSE(memory->allocate(~uint64_t{0}, "all").isOk());
  EXPECT_EQ(memory->usedBytes(), 192u);
  EXPECT_TRUE(memory->prefault().isOk());
}

TEST(SharedMemory, SaysWhatTheMachineLacks) {
  auto memory = SharedMemory::create(uint64_t{1} << 62);
  EXPECT_EQ(memory.status().code(), StatusCode::Unavailable);
  EXPECT_THAT(std::string(memory.status().message()), HasSubstr("4611686018427387904 bytes"));
}

class AbortTest : public testing::TestWithParam<RankKind> {};

TEST_P(AbortTest, TheFirstCauseIsEverybodys) {
  constexpr uint32_t kRanks = 8;
  World world(kRanks);
  auto *causes = world.make<char>(kRanks * 64);
  Status status = world.run(GetParam(), [&](uint32_t rank) -> Status {
    world.abort().raise(rank, "cause of " + std::to_string(rank));
    std::string text(world.abort().status().message());
    text.copy(causes + rank * 64, 63);
    return {};
  });
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_EQ(status.message(),
            "rank " + std::to_string(world.abort().rank()) + ": cause of " + std::to_string(world.abort().rank()));
  for (uint32_t rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(causes + rank * 64, status.message());
}

TEST_P(AbortTest, EverySleeperWakesAtOnce) {
  constexpr uint32_t kRanks = 6;
  World world(kRanks);
  std::vector<WaitPoint *> points;
  for (uint32_t i = 0; i < kRanks; ++i)
    points.push_back(world.make<WaitPoint>(1));
  auto *woken = world.make<std::atomic<int64_t>>(kRanks);
  auto *raised = world.make<std::atomic<int64_t>>(1);
  Status status = world.run(GetParam(), [&](uint32_t rank) -> Status {
    if (rank == 0) {
      usleep(30'000);
      *raised = nowNs();
      world.abort().raise(0, "stop");
      return {};
    }
    Spin spin;
    Status waited = awaitUntil(*points[rank], [] { return false; }, world.abort(), spin,
                               {rank, Activity::AwaitingAgreement, "never", 1});
    woken[rank] = nowNs();
    return waited;
  });
  EXPECT_EQ(status.message(), "rank 0: stop");
  int late =
      0; // A sleeper looks around by itself every quarter of a second; without a wake-up most would be that late.
  for (uint32_t rank = 1; rank < kRanks; ++rank)
    late += woken[rank] - *raised > kSecond / 10;
  EXPECT_LE(late, 1);
}

TEST(Abort, CutsLongTextsAndNamesTheSupervisorByNoRank) {
  World world(1);
  world.abort().raise(Abort::kSupervisor, std::string(2000, 'x'));
  world.abort().raise(0, "later");
  EXPECT_EQ(world.abort().status().message(), std::string(512, 'x'));
  for (int i = 0; i < 1000; ++i) // More raisers than there is room for.
    world.abort().raise(0, "much later");
  EXPECT_EQ(world.abort().status().message(), std::string(512, 'x'));
}

TEST(Abort, ARankThatIsKilledWhileItWaitsHarmsNobody) {
  World world(3);
  auto *point = world.make<WaitPoint>(1);
  auto wait = [&](uint32_t rank) {
    Spin spin;
    return awaitUntil(*point, [] { return false; }, world.abort(), spin, {rank, Activity::AwaitingArrivals, "h", 3});
  };
  pid_t victim = fork();
  if (victim == 0)
    _exit(wait(0).isOk());
  while (world.abort().progress().state(0, LaneKind::Host).activity != Activity::AwaitingArrivals)
    usleep(100);
  std::thread other([&] { EXPECT_EQ(wait(1).message(), "rank 0: killed"); });
  kill(victim, SIGKILL);
  ASSERT_EQ(waitpid(victim, nullptr, 0), victim); // The supervisor's part.
  world.abort().raise(0, "killed");
  other.join();
}

TEST(Progress, SaysWhatEveryRankDoes) {
  World world(2);
  const Progress &progress = world.abort().progress();
  EXPECT_THAT(progress.describe(0), HasSubstr("rank 0: starting for 0."));
  progress.report(1, LaneKind::Host, Activity::AwaitingDevice, "student.backward", 4);
  progress.report(1, LaneKind::Device, Activity::Running, "matmul", 17);
  EXPECT_EQ(progress.counter(1, LaneKind::Device), 1u);
  EXPECT_THAT(
      progress.describe(1, nowNs() + 3 * kSecond),
      HasSubstr("rank 1: awaits its device 'student.backward' 4 for 3.0 s; device: running 'matmul' 17 for 3.0 s"));
}

constexpr StallLimits kLimits = {.beatNs = 3 * kSecond, .waitNs = 10 * kSecond, .workNs = 60 * kSecond};

TEST(Progress, BlamesTheOneWhoHoldsTheOthersUp) {
  World world(3);
  const Progress &progress = world.abort().progress();
  auto stallAfter = [&](int64_t seconds) { return progress.findStall(kLimits, nowNs() + seconds * kSecond); };
  progress.report(0, LaneKind::Host, Activity::AwaitingArrivals, "h", 3);
  progress.report(1, LaneKind::Host, Activity::AwaitingDevice, "forward", 3);
  progress.report(1, LaneKind::Device, Activity::Running, "matmul", 1);
  progress.report(2, LaneKind::Host, Activity::AwaitingCredit, "h", 9);
  // While a device works, nobody is stalled, however long the others wait.
  EXPECT_FALSE(stallAfter(59));
  auto stall = stallAfter(61);
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 1u);
  EXPECT_THAT(stall->text,
              AllOf(HasSubstr("no progress for 61.0 s (limit 60.0 s): rank 1: awaits its device 'forward' 3"),
                    HasSubstr("rank 0: awaits arrivals 'h' 3"), HasSubstr("rank 2: awaits credit 'h' 9")));
  // Work that is expected to take long may.
  progress.expect(1, LaneKind::Device, 20 * kSecond);
  EXPECT_FALSE(stallAfter(199));
  EXPECT_TRUE(stallAfter(201));
  // Where nobody works, all wait in vain.
  progress.report(1, LaneKind::Device, Activity::Idle);
  progress.report(1, LaneKind::Host, Activity::Idle);
  EXPECT_FALSE(stallAfter(9));
  stall = stallAfter(11);
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 0u);
  EXPECT_THAT(stall->text, HasSubstr("a message is missing or all wait in a circle"));
}

TEST(Progress, ADriverMayTakeAsLongAsItLikes) {
  World world(2);
  const Progress &progress = world.abort().progress();
  progress.report(1, LaneKind::Device, Activity::AwaitingCredit, "h", 9);
  progress.report(0, LaneKind::Driver, Activity::Running, "saving", 100);
  EXPECT_FALSE(progress.findStall(kLimits, nowNs() + 3600 * kSecond));
  progress.report(0, LaneKind::Driver, Activity::AwaitingRanks);
  EXPECT_TRUE(progress.findStall(kLimits, nowNs() + 11 * kSecond));
}

TEST(Progress, WhoNoLongerBeatsIsStoppedOrDead) {
  World world(2);
  const Progress &progress = world.abort().progress();
  int64_t started = nowNs();
  progress.report(0, LaneKind::Driver, Activity::Running, "saving", 100);
  EXPECT_FALSE(progress.findStall(kLimits, started + 30 * kSecond)); // Nobody has begun to beat.
  progress.beat(1);
  EXPECT_FALSE(progress.findStall(kLimits, started + 2 * kSecond));
  auto stall = progress.findStall(kLimits, started + 4 * kSecond);
  ASSERT_TRUE(stall);
  EXPECT_EQ(stall->rank, 1u);
  EXPECT_THAT(stall->text, HasSubstr("no sign of life"));
  progress.report(1, LaneKind::Driver, Activity::Finished); // Has left.
  EXPECT_FALSE(progress.findStall(kLimits, started + 4 * kSecond));
}

TEST(Progress, SleepersReturnToWhatTheyDid) {
  World world(1);
  const Progress &progress = world.abort().progress();
  auto *point = world.make<WaitPoint>(1);
  progress.report(0, LaneKind::Host, Activity::Running, "step", 5);
  std::atomic<bool> ready = false;
  std::thread waiter([&] {
    Spin spin;
    EXPECT_TRUE(awaitUntil(*point, [&] { return ready.load(); }, world.abort(), spin,
                           {0, Activity::AwaitingAgreement, "norms", 2})
                    .isOk());
  });
  while (progress.state(0, LaneKind::Host).activity != Activity::AwaitingAgreement)
    usleep(1'000);
  ready = true;
  notify(*point);
  waiter.join();
  EXPECT_EQ(progress.state(0, LaneKind::Host).activity, Activity::Running);
  EXPECT_STREQ(progress.state(0, LaneKind::Host).what, "step");
}

INSTANTIATE_TEST_SUITE_P(All, AbortTest, testing::Values(RankKind::Threads, RankKind::Processes),
                         [](const auto &info) { return info.param == RankKind::Threads ? "Threads" : "Processes"; });

} // namespace
} // namespace maestro::transport::test
