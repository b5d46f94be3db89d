// The search against plain enumeration of its space, under the same simulator.
#include "planner/search/lower_bound.h"
#include "planner/search/search.h"
#include "small_problems.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

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

/// Every layout: groupings, devices, placement, replicas, sizes, cuts and splits.
struct Enumeration {
  const SearchProblem &problem;
  Cuts cuts{problem};
  cost_models::Simulator simulator{problem.steps};
  std::vector<std::vector<SectionCut>> cutsOf = allCuts();
  std::set<std::pair<std::vector<SectionCut>, CompoundLayout>> seen; ///< Many are placed alike.
  double best = std::numeric_limits<double>::infinity();
  Layout fastest;
  size_t layouts = 0;

  std::vector<std::vector<SectionCut>> allCuts() const {
    std::vector<std::vector<SectionCut>> all(problem.pins.size());
    for (uint32_t s = 0; s < all.size(); ++s)
      for (const RecomputeChoice &recompute : recomputeChoices(problem, s))
        for (uint32_t stages : cuts.stageCounts(s))
          for (uint32_t split = 0; split <= stages; ++split)
            if (split == 0 ||
                (problem.model.sections[s].has(recompute, true) && mayGainBySplitting(problem, s, stages)))
              all[s].push_back(cuts.cut(s, recompute, stages, split));
    return all;
  }

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
            choose(group, sizes);
        } while (next(sizes, std::vector<uint32_t>(groups, problem.machine.devices)));
    } while (next(group, std::vector<uint32_t>(sections, static_cast<uint32_t>(sections))));
  }

  void choose(const std::vector<uint32_t> &group, const std::vector<uint32_t> &sizes) {
    size_t sections = problem.pins.size();
    std::vector<uint32_t> limits(sections, problem.machine.devices); // Replicas, micro-batches, cuts, placement.
    limits.insert(limits.end(), sections, static_cast<uint32_t>(problem.model.microBatches.size()));
    for (const std::vector<SectionCut> &own : cutsOf)
      limits.push_back(static_cast<uint32_t>(own.size()));
    limits.insert(limits.end(), sizes.size(), 2);
    std::vector<uint32_t> digits(limits.size(), 0);
    do {
      Layout layout;
      for (size_t g = 0; g < sizes.size(); ++g)
        layout.groups.push_back({{}, sizes[g] + 1, 1, digits[3 * sections + g] == 1, {}});
      bool isPossible = true;
      for (uint32_t s = 0; s < sections; ++s) {
        SectionOption option{cutsOf[s][digits[2 * sections + s]], digits[sections + s], digits[s] + 1, 0};
        isPossible &= option.stations() <= sizes[group[s]] + 1;
        layout.groups[group[s]].sections.push_back(s);
        layout.sections.push_back(std::move(option));
      }
      if (isPossible && obeys(problem, layout))
        measure(layout);
    } while (next(digits, limits));
  }

  void measure(const Layout &layout) {
    CompoundLayout choices = place(layout, problem.machine);
    if (!seen.insert({maestro::planner::cutsOf(layout), choices}).second)
      return;
    CompoundModel model = modelOf(problem.model, layout);
    std::vector<uint64_t> bytes = cost_models::deviceBytes(model, problem.machine, choices);
    for (uint32_t device = 0; device < bytes.size(); ++device)
      if (bytes[device] > problem.machine.memoryBytes(device))
        return;
    ++layouts;
    auto simulation = simulator.run(model, problem.machine, choices, wavefront::Order::Wavefront);
    ASSERT_TRUE(simulation.isOk()) << simulation.status().message();
    if (simulation->stepSeconds < best) {
      best = simulation->stepSeconds;
      fastest = layout;
    }
  }
};

TEST(SearchBruteForce, EqualsEnumerationOnSeededSmallProblems) {
  constexpr uint64_t kProblems = 400;
  size_t layouts = 0, solved = 0, simulations = 0;
  double bounds = 0;
  for (uint64_t seed = 0; seed < kProblems; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SearchProblem problem = smallProblem(seed);
    for (SearchPins &pins : problem.pins)
      pins.moreInFlight = 0; // It would be three times the layouts for each section.
    Enumeration all{problem};
    all.run();
    auto found = searchLayouts(problem);
    if (all.layouts == 0) {
      EXPECT_FALSE(found.isOk());
      EXPECT_NE(found.status().message().find("no layout fits"), std::string::npos) << found.status().message();
      continue;
    }
    EXPECT_TRUE(found.isOk()) << found.status().message() << " instead of "
                              << describe(problem.model, problem.machine, all.fastest);
    if (!found.isOk())
      continue;
    EXPECT_LE(found->lowerBoundSeconds, all.best);
    bounds += found->lowerBoundSeconds / all.best;
    EXPECT_EQ(found->simulation.stepSeconds, all.best)
        << describe(problem.model, problem.machine, found->layout) << " instead of "
        << describe(problem.model, problem.machine, all.fastest);
    Status verified = verify(problem, *found);
    EXPECT_TRUE(verified.isOk()) << verified.message();
    layouts += all.layouts;
    simulations += found->simulations;
    ++solved;
  }
  EXPECT_GE(solved, 350u);
  EXPECT_GE(bounds / static_cast<double>(solved), 0.55); // Updates, of which it knows nothing, are long here.
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
    for (SearchPins &pins : problem.pins)
      pins.moreInFlight = 0;
    problem.machine.devices = 4;
    problem.machine.links = {{"inner", 2, cost_models::BytesPerSecond(1e7), cost_models::microseconds(2)},
                             {"outer", 4, cost_models::BytesPerSecond(1e6), cost_models::microseconds(6)}};
    Enumeration all{problem};
    all.run();
    if (all.layouts == 0)
      continue;
    double bound = lowerBoundSeconds(problem, all.cuts);
    EXPECT_LE(bound, all.best);
    bounds += bound / all.best;
    ++solved;
  }
  EXPECT_GE(solved, 40u);
  EXPECT_GE(bounds / static_cast<double>(solved), 0.45);
  std::printf("%zu problems, the bound is %.3f of the best step\n", solved, bounds / static_cast<double>(solved));
}

} // namespace
} // namespace maestro::planner
