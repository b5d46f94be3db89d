// Scheduling a step, and verifying its schedule, allocate nothing once a problem of its size has been seen: counted by
// replacing operator new.
#include "test/allocations/allocations.h"
#include "test/wavefront/random_problems.h"
#include "wavefront/scheduler.h"

#include <gtest/gtest.h>

namespace maestro::wavefront {
namespace {

TEST(Allocation, NoneForAProblemSeenBefore) {
  Scheduler scheduler;
  Verifier verifier;
  Schedule schedule;
  std::vector<Problem> problems;
  for (Family family : families)
    for (uint64_t seed = 0; seed < 4; ++seed)
      problems.push_back(trainingProblem(family, seed));
  for (uint64_t seed = 0; seed < 50; ++seed)
    problems.push_back(arbitraryProblem(seed));
  for (Order order : {Order::Wavefront, Order::FileOrder}) {
    for (const Problem &problem : problems) {
      scheduler.run(problem, order, schedule);
      ASSERT_EQ(verifier.run(problem, schedule).message(), "ok");
    }
    for (size_t i = 0; i < problems.size(); ++i) {
      int64_t before = test::allocations();
      scheduler.run(problems[i], order, schedule);
      EXPECT_TRUE(verifier.run(problems[i], schedule).isOk());
      EXPECT_EQ(test::allocations() - before, 0) << "problem " << i << ", order " << static_cast<int>(order);
    }
  }
}

} // namespace
} // namespace maestro::wavefront
