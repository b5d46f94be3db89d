// The bound is never above the optimum, and often equal to it.
#include "test/wavefront/brute_force.h"
#include "test/wavefront/random_problems.h"
#include "wavefront/scheduler.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

namespace maestro::wavefront {
namespace {

/// A frozen section in stages, each on a device of its own; 1 µs a padded token and stage, and so many constants.
Problem frozenChain(const std::vector<int64_t> &lengths, uint32_t stages, uint32_t replicas, int64_t constantNs,
                    int64_t samples) {
  Problem problem;
  problem.dims = {{"batch", true, 1}, {"seq", false, 1}};
  for (int64_t length : lengths)
    problem.sizes.insert(problem.sizes.end(), {1, length});
  Section section;
  section.name = "teacher";
  section.maxSamples = samples;
  section.capacity = {samples, 1 << 20};
  Stage stage;
  stage.forward.terms = {{constantNs * 1000, {}}, {1'000'000, {0, 1}}};
  stage.slots = static_cast<uint32_t>(lengths.size());
  section.stages.assign(stages, stage);
  for (uint32_t r = 0; r < replicas; ++r) {
    section.devices.emplace_back(stages);
    std::iota(section.devices.back().begin(), section.devices.back().end(), r * stages);
  }
  problem.devices = replicas * stages;
  problem.sections = {section};
  for (uint32_t stage = 0; stage + 1 < stages; ++stage) {
    Edge edge;
    edge.producerStage = stage, edge.consumerStage = stage + 1;
    edge.depth = static_cast<uint32_t>(lengths.size());
    problem.edges.push_back(edge);
  }
  return problem;
}

/// Drawn problems, small enough for brute force: no bound is above the optimum, a quarter of them are equal to it.
TEST(LowerBound, FrozenPipelinesStayBelowTheOptimum) {
  Scheduler scheduler;
  Schedule schedule;
  constexpr uint64_t count = 60;
  uint64_t equal = 0;
  const char *text = std::getenv("WAVEFRONT_SEED");
  uint64_t first = text ? std::strtoull(text, nullptr, 10) : 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    Random random(seed);
    std::vector<int64_t> lengths;
    for (int64_t i = random.in(2, 4); i > 0; --i)
      lengths.push_back(random.in(1, 12));
    uint32_t stages = static_cast<uint32_t>(random.in(2, 3)), replicas = static_cast<uint32_t>(random.in(1, 2));
    Problem problem = frozenChain(lengths, stages, replicas, 1000 * random.in(0, 3), random.in(1, 3));
    for (Stage &stage : problem.sections[0].stages) // Stages that differ, too.
      stage.forward.terms[1].picoseconds *= random.chance(30) ? 2 : 1;
    ASSERT_TRUE(check(problem).isOk()) << check(problem).message();
    scheduler.run(problem, Order::Wavefront, schedule);
    int64_t optimum = bruteForce(problem, schedule.makespanNs);
    ASSERT_LE(schedule.lowerBoundNs, optimum) << seed;
    equal += optimum == schedule.lowerBoundNs;
  }
  EXPECT_GE(equal * 4, count);
}

} // namespace
} // namespace maestro::wavefront
