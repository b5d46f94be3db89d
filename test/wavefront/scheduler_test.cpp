// Whatever check() accepts gets a schedule that verify() accepts.
#include "test/wavefront/random_problems.h"
#include "wavefront/scheduler.h"

#include <gtest/gtest.h>

namespace maestro::wavefront {
namespace {

TEST(Scheduler, SchedulesWhateverCheckAccepts) {
  Scheduler scheduler;
  Schedule schedule;
  for (uint64_t seed = 0; seed < 6000; ++seed) {
    Problem problem = arbitraryProblem(seed);
    Status checked = check(problem);
    ASSERT_TRUE(checked.isOk()) << "seed " << seed << ": " << checked.message();
    for (Order order : {Order::Wavefront, Order::FileOrder}) {
      if (order == Order::Wavefront && seed >= 1500)
        continue; // It spends milliseconds on each of these.
      scheduler.run(problem, order, schedule);
      Status verified = verify(problem, schedule);
      ASSERT_TRUE(verified.isOk()) << "seed " << seed << ": " << verified.message();
    }
  }
}

TEST(Scheduler, TheSameProblemTwiceIsTheSameSchedule) {
  Scheduler used, fresh;
  Schedule first, second;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Problem problem = arbitraryProblem(seed);
    used.run(problem, Order::Wavefront, first);
    Scheduler().run(problem, Order::Wavefront, second);
    ASSERT_EQ(hash(first), hash(second)) << "seed " << seed;
  }
}

} // namespace
} // namespace maestro::wavefront
