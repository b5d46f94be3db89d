// Where scheduling begins: whatever a hint says, schedules are right; what tuning finds on some steps helps others.
#include "cost_models/tuner.h"

#include "test/wavefront/random_problems.h"
#include "wavefront/scheduler.h"

#include <gtest/gtest.h>

namespace maestro::cost_models {

using namespace wavefront;

namespace {

double timesBound(Scheduler &scheduler, const Problem &problem) {
  static Schedule schedule;
  scheduler.run(problem, Order::Wavefront, schedule);
  EXPECT_EQ(verify(problem, schedule).message(), "ok");
  return static_cast<double>(schedule.makespanNs) / static_cast<double>(schedule.lowerBoundNs);
}

TEST(Tuner, AnyHintMakesAValidSchedule) {
  Scheduler scheduler;
  Schedule schedule;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Problem problem = arbitraryProblem(seed);
    Random random(seed);
    problem.hints.resize(1 + seed % 3);
    for (Choice &hint : problem.hints)
      for (const ChoicePart &part : choiceParts())
        part.set(hint, random.chance(50) ? random.in(part.min, part.max)
                                         : random.in(part.min, std::min<int64_t>(part.max, 4)));
    ASSERT_EQ(check(problem).message(), "ok") << seed;
    scheduler.run(problem, Order::Wavefront, schedule);
    ASSERT_EQ(verify(problem, schedule).message(), "ok") << seed;
  }
}

/// Problems whose schedules are far from their bounds as a plain start finds them; the steps that they are tuned on are
/// others.
TEST(Tuner, WhatHelpsSomeStepsHelpsOthers) {
  Scheduler scheduler;
  double usual = 0, planned = 0;
  for (uint64_t seed : {71000010, 71000033, 71000036}) {
    double plain = timesBound(scheduler, trainingProblem(Family::Generation, seed));
    EXPECT_GT(plain, 1.1) << "no longer a hard problem: " << seed;
    usual += plain;
    planned += timesBound(scheduler, plannedProblem(Family::Generation, seed));
  }
  EXPECT_LT(planned, 0.96 * usual);
}

TEST(Tuner, TheSameStepsHaveTheSameAnswer) {
  std::vector<Problem> steps{trainingProblem(Family::Ensemble, 3)};
  std::vector<Choice> first = tune(steps, {.budgetNs = 20'000'000}), again = tune(steps, {.budgetNs = 20'000'000});
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(first, again);
}

TEST(Tuner, NothingToFindAtTheBound) {
  Problem problem; // One section on one device.
  problem.dims = {{"batch", true, 1}};
  problem.sizes.assign(32, 1);
  problem.sections = {
      {"model", true, false, {}, 4, {4}, {}, {{{{{1'000'000, {0}}}}, {{{2'000'000, {0}}}}, {}, 1, {}}}, {{0}}}};
  ASSERT_EQ(check(problem).message(), "ok");
  EXPECT_TRUE(tune(std::vector<Problem>{problem}, {.budgetNs = 100'000'000}).empty());
}

} // namespace
} // namespace maestro::cost_models
