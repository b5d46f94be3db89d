// The algorithm that schedules large problems, against the optimum of small ones.
#include "test/wavefront/brute_force.h"

#include "wavefront/scheduler.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace maestro::wavefront {
namespace {

/// Problems from a seed on, or from WAVEFRONT_SEED.
void compare(uint64_t problems, Problem (*make)(uint64_t seed)) {
  Scheduler scheduler;
  Schedule schedule;
  const char *text = std::getenv("WAVEFRONT_SEED");
  uint64_t seed = text ? std::strtoull(text, nullptr, 10) : 1'000, equal = 0;
  double worst = 1;
  for (uint64_t i = seed; i < seed + problems; ++i) {
    Problem problem = make(i);
    ASSERT_TRUE(check(problem).isOk()) << i << ": " << check(problem).message();
    scheduler.run(problem, Order::Wavefront, schedule);
    ASSERT_TRUE(verify(problem, schedule).isOk()) << i;
    int64_t optimum = bruteForce(problem, schedule.makespanNs);
    ASSERT_LE(schedule.lowerBoundNs, optimum) << i;
    equal += optimum == schedule.makespanNs;
    double ratio = static_cast<double>(schedule.makespanNs) / static_cast<double>(optimum);
    worst = std::max(worst, ratio);
    if (std::getenv("WAVEFRONT_EACH") && ratio > 1)
      std::printf("seed %lu: %.3f\n", static_cast<unsigned long>(i), ratio);
  }
  std::printf("equal to the optimum: %lu of %lu, worst %.3f\n", static_cast<unsigned long>(equal),
              static_cast<unsigned long>(problems), worst);
  EXPECT_GE(equal * 10, problems * 9);
  EXPECT_LE(worst, 1.2); // Where a device would have to wait on purpose, which list scheduling never does.
}

TEST(BruteForce, SmallProblemsAreNearlyAlwaysOptimal) { compare(400, tinyProblem); }

TEST(BruteForce, SoAreThoseWithPaddedTokens) {
  compare(200, [](uint64_t seed) { return withTinyAreas(tinyProblem(seed), seed); });
}

} // namespace
} // namespace maestro::wavefront
