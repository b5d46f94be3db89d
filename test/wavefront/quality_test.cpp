// How good schedules of training mixes are: against the lower bound, and against static layouts in file order.
// bench/wavefront prints the same by family; WAVEFRONT_SEED starts elsewhere.
#include "test/wavefront/random_problems.h"
#include "wavefront/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

namespace maestro::wavefront {
namespace {

uint64_t firstSeed() {
  const char *text = std::getenv("WAVEFRONT_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 700'000;
}

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

TEST(Quality, TrainingMixesComeCloseToTheLowerBound) {
  Scheduler scheduler;
  Schedule schedule;
  std::vector<double> ratios;
  for (uint64_t seed = firstSeed(); seed < firstSeed() + 48; ++seed) {
    Problem problem = plannedProblem(seed);
    ASSERT_TRUE(check(problem).isOk()) << seed << ": " << check(problem).message();
    scheduler.run(problem, Order::Wavefront, schedule);
    Status verified = verify(problem, schedule);
    ASSERT_TRUE(verified.isOk()) << seed << ": " << verified.message();
    ratios.push_back(ratio(schedule.makespanNs, schedule.lowerBoundNs));
  }
  std::sort(ratios.begin(), ratios.end());
  double median = ratios[ratios.size() / 2], ninetieth = ratios[ratios.size() * 9 / 10];
  std::printf("makespan / bound over %zu problems: median %.3f, 90 %% %.3f, worst %.3f\n", ratios.size(), median,
              ninetieth, ratios.back());
  EXPECT_LE(median, 1.05);
  EXPECT_LE(ninetieth, 1.09);
  EXPECT_LE(ratios.back(), 1.15); // README.md has the distribution over more seeds.
}

TEST(Quality, BeatsStaticLayoutsInFileOrder) {
  Scheduler scheduler;
  Schedule wave, file;
  for (uint32_t devices : {2, 4, 8, 16, 32, 64}) {
    std::vector<double> gains;
    for (uint64_t seed = firstSeed(); seed < firstSeed() + 7; ++seed) {
      Problem problem = multimodalMix(devices, seed);
      ASSERT_TRUE(check(problem).isOk()) << check(problem).message();
      ASSERT_EQ(problem.devices, devices);
      scheduler.run(problem, Order::Wavefront, wave);
      scheduler.run(problem, Order::FileOrder, file);
      ASSERT_TRUE(verify(problem, file).isOk());
      gains.push_back(ratio(file.makespanNs, wave.makespanNs));
      EXPECT_GE(gains.back(), 1) << "devices " << devices << ", seed " << seed;
    }
    std::sort(gains.begin(), gains.end());
    std::printf("%u devices: file order takes %.2f x as long (%.2f to %.2f)\n", devices, gains[gains.size() / 2],
                gains.front(), gains.back());
    EXPECT_GE(gains[gains.size() / 2], devices >= 16 ? 1.3 : 1.0) << devices << " devices";
  }
}

/// A frozen section on four devices, of which two also train what reads it: the others take most of its work.
TEST(Quality, SharesOutWorkWhereOthersLeaveTime) {
  auto perSample = [](int64_t ns) { return Cost{{{ns * 1000, {0}}}}; };
  Problem problem;
  problem.dims = {{"batch", true, 1}};
  problem.sizes.assign(256, 1);
  problem.devices = 4;
  Section teacher{"teacher", false, false, {}, 2, {2}, {}, {{perSample(100'000), {}, {}, 1, {}}}, {{0}, {1}, {2}, {3}}};
  Section student{"student", true, false, {}, 2, {2}, {}, {{perSample(40'000), perSample(60'000), {}, 2, {}}},
                  {{0}, {1}}};
  problem.sections = {teacher, student};
  Edge edge;
  edge.consumer = 1, edge.depth = 12;
  problem.edges = {edge};
  ASSERT_TRUE(check(problem).isOk()) << check(problem).message();
  Schedule schedule;
  Scheduler().run(problem, Order::Wavefront, schedule);
  ASSERT_TRUE(verify(problem, schedule).isOk()) << verify(problem, schedule).message();
  EXPECT_LE(schedule.makespanNs,
            256 * 200'000 / 4 * 11 / 10); // 1.5 times that where each takes a quarter of the first.
}

} // namespace
} // namespace maestro::wavefront
