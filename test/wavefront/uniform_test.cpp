// Uniform chains: what 1F1B and the zero-bubble schedules reach by construction falls out of the general algorithm.
#include "wavefront/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

namespace maestro::wavefront {
namespace {

/// Test times are of 10 µs: steps of real lengths, as what scheduling may cost is a part of them.
constexpr int64_t kUnitNs = 10'000;

Cost perSample(int64_t units) { return {{{units * kUnitNs * 1000, {0}}}}; }

struct Chain {
  int64_t stages, microBatches, forward, backward, weight = 0;
  int64_t spare = 0; ///< Places in flight beyond 1F1B's `stages - stage`.
  uint32_t depth = 2;
};

/// Stages on a device each, micro-batches of one sample.
Problem chain(const Chain &shape, int64_t replicas = 1) {
  Problem problem;
  problem.dims = {{"batch", true, 1}};
  problem.sizes.assign(static_cast<size_t>(shape.microBatches * replicas), 1);
  Section section{"chain", true, shape.weight > 0, {}, 1, {1}, {}, {}, {}};
  for (int64_t s = 0; s < shape.stages; ++s) {
    Stage stage{perSample(shape.forward), perSample(shape.backward), perSample(shape.weight), 1, {}};
    stage.slots = static_cast<uint32_t>(shape.stages - s + shape.spare);
    section.stages.push_back(stage);
  }
  for (int64_t r = 0; r < replicas; ++r) {
    section.devices.emplace_back();
    for (int64_t s = 0; s < shape.stages; ++s)
      section.devices.back().push_back(problem.devices - 1 + static_cast<uint32_t>(r * shape.stages + s));
  }
  problem.devices = static_cast<uint32_t>(replicas * shape.stages);
  problem.sections = {section};
  for (uint32_t s = 0; s + 1 < shape.stages; ++s) {
    Edge edge;
    edge.producerStage = s, edge.consumerStage = s + 1, edge.gradient = true;
    edge.depth = edge.gradientDepth = shape.depth;
    problem.edges.push_back(edge);
  }
  return problem;
}

int64_t makespan(const Problem &problem) {
  EXPECT_TRUE(check(problem).isOk()) << check(problem).message();
  Schedule schedule;
  Scheduler().run(problem, Order::Wavefront, schedule);
  Status verified = verify(problem, schedule);
  EXPECT_TRUE(verified.isOk()) << verified.message();
  EXPECT_LE(schedule.lowerBoundNs, schedule.makespanNs);
  EXPECT_EQ(schedule.makespanNs % kUnitNs, 0);
  return schedule.makespanNs / kUnitNs;
}

TEST(Uniform, ChainsReachOneForwardOneBackward) {
  for (int64_t p : {1, 2, 3, 4, 6, 8, 16})
    for (int64_t m : {1, 2, 3, 5, 8, 16, 40, 128})
      for (auto [f, b] : {std::pair<int64_t, int64_t>{100, 200}, {100, 100}, {300, 100}, {70, 130}})
        for (int64_t spare : {0, 1, 8})
          ASSERT_EQ(makespan(chain({p, m, f, b, 0, spare})), (m + p - 1) * (f + b))
              << p << " stages, " << m << " micro-batches, " << f << " + " << b << ", spare " << spare;
}

TEST(Uniform, ReplicasReachItToo) {
  for (int64_t r : {2, 3, 8})
    for (int64_t m : {1, 4, 9})
      EXPECT_EQ(makespan(chain({4, m, 100, 200}, r)), (m + 3) * 300);
}

/// ZB-H1 (Qi et al., "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 2.1 and table 2) lets every stage
/// have p micro-batches in flight, those that wait for their weight gradients among them: as many as 1F1B's first
/// stage. It is then idle for (p - 1)(f + b - w), where no w is longer than f or b. What holds for any times, m >= 2 p
/// and p places:
///  - the first stage runs at most p forward tasks before its first backward, which comes after pf + (p - 1)b;
///  - the last stage starts after (p - 1)f;
///  - when its last backward ends, (p - 1)b and one w are left for the first stage, and at most p w for itself.
/// So no schedule is idle for less than (p - 1)max(f, b, f + b - w), and that is what must be reached.
TEST(Uniform, SplitChainsReachZeroBubble) {
  auto withPlaces = [](Chain shape, int64_t places) {
    Problem problem = chain(shape);
    for (Stage &stage : problem.sections[0].stages)
      stage.slots = static_cast<uint32_t>(places);
    return problem;
  };
  for (int64_t p : {2, 3, 4, 6, 8})
    for (int64_t m : {2 * p, 3 * p, 40 + p})
      for (auto [f, b, w] : {std::tuple<int64_t, int64_t, int64_t>{100, 100, 100},
                             {250, 250, 250},
                             {100, 120, 80},
                             {100, 200, 100},
                             {130, 100, 90},
                             {100, 300, 20},
                             {100, 100, 120},
                             {200, 100, 150},
                             {100, 60, 100}}) {
        SCOPED_TRACE(testing::Message() << p << " stages, " << m << " micro-batches, " << f << "+" << b << "+" << w);
        int64_t work = m * (f + b + w), idle = (p - 1) * std::max({f, b, f + b - w});
        EXPECT_EQ(makespan(withPlaces({p, m, f, b, w, 0, static_cast<uint32_t>(p)}, p)), work + idle);
        if (w <= std::min(f, b)) {
          EXPECT_EQ(idle, (p - 1) * (f + b - w));
        }
        // With more places it can only become shorter.
        EXPECT_LE(makespan(withPlaces({p, m, f, b, w, 0, 2 * static_cast<uint32_t>(p)}, 2 * p)), work + idle);
      }
}

} // namespace
} // namespace maestro::wavefront
