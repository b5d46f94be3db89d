// The search against plain enumeration of its space, under the same simulator.
#include "planner/search/cuts.h"
#include "planner/search/search.h"
#include "planner/search/space_bound.h"
#include "small_problems.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace maestro::planner {
namespace {

/// Counts through all digits below their limits; false when it wraps around.
bool next(std::vector<uint32_t> &digits, const std::vector<uint32_t> &limits) {
  for (size_t i = 0; i < digits.size(); ++i) {
    if (++digits[i] < limits[i])
      return true;
    digits[i] = 0;
  }
  return false;
}

struct Enumeration {
  const SearchProblem &problem;
  WorkTable work{problem};
  CutTable cuts{problem, work, std::min(problem.machine.devices, 4u), true};
  cost_models::Simulator simulator{problem.steps};
  double best = std::numeric_limits<double>::infinity();
  size_t layouts = 0;

  void run() {
    size_t sections = problem.pins.size();
    std::vector<uint32_t> group(sections, 0);
    do { // Groups are numbered in the order of their first sections.
      uint32_t groups = 0;
      bool ordered = true;
      for (uint32_t own : group) {
        ordered &= own <= groups;
        groups = std::max(groups, own + 1);
      }
      std::vector<uint32_t> sizes(groups, 0);
      if (ordered)
        do {
          uint32_t total = 0;
          for (uint32_t size : sizes)
            total += size + 1;
          if (total <= problem.machine.devices)
            place(group, sizes);
        } while (next(sizes, std::vector<uint32_t>(groups, problem.machine.devices)));
    } while (next(group, std::vector<uint32_t>(sections, static_cast<uint32_t>(sections))));
  }

  void place(const std::vector<uint32_t> &group, const std::vector<uint32_t> &sizes) {
    size_t sections = problem.pins.size();
    std::vector<uint32_t> limits, digits(3 * sections, 0); // Replicas, micro-batches, cuts.
    limits.assign(sections, problem.machine.devices);
    limits.insert(limits.end(), sections, static_cast<uint32_t>(problem.model.microBatches.size()));
    for (uint32_t s = 0; s < sections; ++s)
      limits.push_back(static_cast<uint32_t>(cuts.of(s).size()));
    do {
      Layout layout(sections);
      bool possible = true;
      for (uint32_t s = 0; s < sections; ++s) {
        uint32_t first = 0, size = sizes[group[s]] + 1, replicas = digits[s] + 1;
        for (uint32_t g = 0; g < group[s]; ++g)
          first += sizes[g] + 1;
        layout[s].cut = cuts.of(s)[digits[2 * sections + s]].cut;
        layout[s].microBatch = digits[sections + s];
        auto stages = static_cast<uint32_t>(layout[s].cut.stages());
        const SearchPins &pins = problem.pins[s];
        possible &= stages <= size &&
                    (pins.dataParallel ? replicas == *pins.dataParallel &&
                                             size >= std::min(replicas * stages, problem.machine.devices)
                                       : replicas * stages <= size) &&
                    (!pins.microBatch || *pins.microBatch == layout[s].microBatch);
        for (uint32_t r = 0; r < replicas; ++r) {
          layout[s].devices.emplace_back();
          for (uint32_t stage = 0; stage < stages; ++stage)
            layout[s].devices.back().push_back(first + (r * stages + stage) % size);
        }
      }
      if (possible)
        measure(layout);
    } while (next(digits, limits));
  }

  void measure(const Layout &layout) {
    CompoundModel model = modelOf(problem, layout);
    CompoundLayout choices = choicesOf(layout);
    if (!fits(problem, model, choices))
      return;
    ++layouts;
    auto simulation = simulator.run(model, problem.machine, choices, wavefront::Order::Wavefront);
    ASSERT_TRUE(simulation.isOk()) << simulation.status().message();
    best = std::min(best, simulation->stepSeconds);
  }
};

TEST(SearchBruteForce, EqualsEnumerationOnSeededSmallProblems) {
  constexpr uint64_t kProblems = 400;
  size_t layouts = 0, solved = 0, simulations = 0;
  double bounds = 0;
  for (uint64_t seed = 0; seed < kProblems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SearchProblem problem = smallProblem(seed);
    Enumeration all{problem};
    all.run();
    auto found = searchLayouts(problem);
    if (all.layouts == 0) {
      EXPECT_FALSE(found.isOk());
      EXPECT_NE(found.status().message().find("no layout fits"), std::string::npos) << found.status().message();
      continue;
    }
    ASSERT_TRUE(found.isOk()) << found.status().message();
    EXPECT_TRUE(found->isProven);
    EXPECT_LE(found->lowerBoundSeconds, all.best);
    double bound = spaceBound(problem, all.cuts, all.work);
    EXPECT_LE(bound, all.best);
    bounds += bound / all.best;
    EXPECT_EQ(found->simulation.stepSeconds, all.best) << describe(problem.model, found->layout);
    Status verified = verify(problem, *found);
    EXPECT_TRUE(verified.isOk()) << verified.message();
    layouts += all.layouts;
    simulations += found->simulations;
    ++solved;
  }
  EXPECT_GE(solved, 350u);
  EXPECT_GE(bounds / static_cast<double>(solved), 0.91); // 0.887 without families.
  EXPECT_LT(simulations, layouts);                       // Bounds save work.
  RecordProperty("layouts", static_cast<int>(layouts));
  std::printf("%zu problems, %zu layouts enumerated, %zu simulated by the search, the bound is %.3f of the best step\n",
              solved, layouts, simulations, bounds / static_cast<double>(solved));
}

/// Nodes of two devices: where replicas lie decides what their update takes.
TEST(SearchBruteForce, TheBoundHoldsAcrossNodes) {
  double bounds = 0;
  size_t solved = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SearchProblem problem = smallProblem(seed);
    if (problem.pins.size() > 2)
      continue;
    problem.machine.devices = 4;
    problem.machine.links = {{"inner", 2, cost_models::BytesPerSecond(1e7), cost_models::microseconds(2)},
                             {"outer", 4, cost_models::BytesPerSecond(1e6), cost_models::microseconds(6)}};
    Enumeration all{problem};
    all.run();
    if (all.layouts == 0)
      continue;
    double bound = spaceBound(problem, all.cuts, all.work);
    EXPECT_LE(bound, all.best);
    bounds += bound / all.best;
    ++solved;
  }
  EXPECT_GE(solved, 40u);
  EXPECT_GE(bounds / static_cast<double>(solved), 0.85); // 0.845 without families.
  std::printf("%zu problems, the bound is %.3f of the best step\n", solved, bounds / static_cast<double>(solved));
}

} // namespace
} // namespace maestro::planner
