#include "planner/search/cuts.h"
#include "planner/search/schedule_bound.h"
#include "planner/search/search.h"
#include "planner/search/search_space.h"
#include "planner/search/shapes.h"
#include "planner/search/space_bound.h"
#include "planner/search/ways.h"
#include "small_problems.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

namespace maestro::planner {
namespace {

SearchResult solve(const SearchProblem &problem) { return verified(problem, searchLayouts(problem)); }

const ComparedLayout &row(const SearchResult &result, const std::string &name) {
  return *std::find_if(result.compared.begin(), result.compared.end(),
                       [&](const ComparedLayout &r) { return r.name == name; });
}

TEST(Search, PlacementsAreGroupsOnDisjointRanges) {
  SearchProblem problem = distillation(3, 1000, 1000);
  // Together on 3, 2 or 1 devices; apart on 2+1, 1+2 and 1+1.
  EXPECT_EQ(enumeratePlacements(problem).size(), 6u);
  problem.pins[0].devices = std::vector<uint32_t>{2};
  for (const Placement &placement : enumeratePlacements(problem))
    EXPECT_EQ(placement[0], std::vector<uint32_t>{2});
}

TEST(Search, DevicesReadAsRanges) {
  EXPECT_EQ(ranges({3, 0, 1, 2, 2, 7, 5, 6}), "0-3,5-7");
  EXPECT_EQ(ranges({4}), "4");
  EXPECT_EQ(ranges({}), "");
}

TEST(Search, BaselinesAreAlwaysCompared) {
  SearchResult result = solve(distillation(2, 40'000, 30'000));
  ASSERT_EQ(result.compared.size(), 4u);
  for (const char *name : {"search", "all data parallel", "one layout for all", "static split"})
    EXPECT_TRUE(row(result, name).possible) << name << ": " << row(result, name).what;
  EXPECT_TRUE(row(result, "static split").inFileOrder);
  for (const ComparedLayout &other : result.compared)
    EXPECT_LE(result.simulation.stepSeconds, other.simulation.stepSeconds) << other.name;
}

TEST(Search, ASimpleLayoutThatNothingBeatsIsTheAnswer) {
  SearchProblem problem = distillation(2, 40'000, 40'000);
  problem.machine.kinds.front().rates.stream =
      cost_models::BytesPerSecond(1e12); // Replicas cost nothing, so sharing both devices is best.
  SearchResult result = solve(problem);
  EXPECT_EQ(result.winner, "all data parallel");
  EXPECT_EQ(result.layout[0].devices.size(), 2u);
  EXPECT_EQ(result.layout[1].devices.size(), 2u);
}

TEST(Search, ExpensiveReductionSeparatesSections) {
  SearchProblem problem = distillation(2, 90'000, 30'000); // Equal work a device when apart.
  problem.machine.kinds.front().rates.stream =
      cost_models::BytesPerSecond(2e6); // The student's gradients take long to add up.
  SearchResult result = solve(problem);
  EXPECT_NE(result.winner, "all data parallel");
  EXPECT_EQ(result.layout[1].devices.size(), 1u);
  EXPECT_LT(result.simulation.stepSeconds, row(result, "all data parallel").simulation.stepSeconds);
}

TEST(Search, WhatDoesNotFitIsNoCandidate) {
  SearchProblem problem = distillation(2, 40'000, 40'000);
  problem.machine.kinds.front().rates.stream = cost_models::BytesPerSecond(1e12);
  problem.machine.kinds[0].memoryBytes = 4800; // The student alone, or the teacher; not both on one device.
  SearchResult result = solve(problem);
  EXPECT_NE(result.layout[0].devices, result.layout[1].devices);
  EXPECT_FALSE(row(result, "all data parallel").possible);
  EXPECT_NE(row(result, "all data parallel").what.find("memory"), std::string::npos);
  problem.machine.kinds[0].memoryBytes = 900;
  auto none = searchLayouts(problem);
  ASSERT_FALSE(none.isOk());
  EXPECT_NE(none.status().message().find("and has 0.000"), std::string::npos) << none.status().message();
}

TEST(Search, PinsRestrict) {
  SearchProblem problem = distillation(4, 40'000, 40'000);
  problem.pins[0].devices = std::vector<uint32_t>{3};
  problem.pins[1].dataParallel = 3;
  problem.pins[1].microBatch = 0;
  SearchResult result = solve(problem);
  EXPECT_EQ(result.layout[0].devices, (std::vector<std::vector<uint32_t>>{{3}}));
  EXPECT_EQ(result.layout[1].devices.size(), 3u);
  EXPECT_EQ(result.layout[1].microBatch, 0u);
}

TEST(Search, TheSameProblemHasTheSameAnswer) {
  SearchProblem problem = distillation(4, 70'000, 20'000);
  problem.budget.simulations = 6;
  problem.budget.nodes = 500; // Cut short, which is where an order could leak in.
  SearchResult first = solve(problem), second = solve(problem);
  EXPECT_EQ(first.layout, second.layout);
  EXPECT_EQ(first.nodes, second.nodes);
  EXPECT_EQ(first.simulations, second.simulations);
  EXPECT_FALSE(first.isProven);
}

TEST(Search, NeverWorseThanABaselineHoweverShortTheBudget) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto work = [&](uint64_t part) { return static_cast<int64_t>(10'000 + seed * 7919 * part % 90'000); };
    SearchProblem problem = distillation(2 + seed % 7, work(1), work(3));
    problem.budget.simulations = static_cast<uint32_t>(1 + seed % 5);
    problem.budget.nodes = static_cast<uint32_t>(20 + seed);
    SearchResult result = solve(problem); // verify() compares it with every row.
    for (const ComparedLayout &other : result.compared)
      EXPECT_TRUE(other.possible) << other.name;
  }
}

/// Of everything that the search simulated nothing is faster than the bound of the whole space, which is asked here for
/// up to twice the step.
void expectBoundHolds(const SearchProblem &problem, const SearchResult &result) {
  constexpr uint32_t kMostStages = 64;
  WorkTable work(problem);
  CutTable cuts(problem, work, std::min(problem.machine.devices, kMostStages), false,
                problem.pins.size() <= 2 ? 1 : kCoarseParts);
  double bound = spaceBound(problem, cuts, work, 2 * result.simulation.stepSeconds);
  ASSERT_FALSE(result.simulated.empty());
  for (const RankedLayout &other : result.simulated)
    EXPECT_GE(other.simulation.stepSeconds, bound) << describe(problem.model, other.layout);
}

TEST(Search, ManyDevices) {
  for (uint32_t devices : {16u, 64u, 1024u})
    for (uint64_t seed = 0; seed < (devices > 64 ? 1 : 3); ++seed) {
      SCOPED_TRACE(std::to_string(devices) + " devices, seed " + std::to_string(seed));
      SearchProblem problem = layered(devices, 12, seed);
      SearchResult result = solve(problem); // verify() compares it with every row.
      if (devices <= 64) // What the result says is never above its step: that would hide a bound that does not hold.
        expectBoundHolds(problem, result);
      std::printf("%u devices: %s: %.3g s, bound %.3g (%.1f %%), %u simulated\n", devices,
                  describe(problem.model, result.layout).c_str(), result.simulation.stepSeconds,
                  result.lowerBoundSeconds, 100 * (result.simulation.stepSeconds / result.lowerBoundSeconds - 1),
                  result.simulations);
    }
}

TEST(Search, LeftMemoryHoldsMoreInFlight) {
  auto most = [](const SearchResult &result) {
    uint32_t more = 0;
    for (const LayoutOption &option : result.layout)
      more = std::max(more, option.moreInFlight);
    return more;
  };
  uint32_t gained = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SearchProblem problem = layered(16, 12, seed);
    problem.machine.kinds.front().memoryBytes *= 2;
    problem.steps.front().resize(96);
    for (SearchPins &pins : problem.pins)
      pins.stages = 4, pins.microBatch = 0;
    SearchResult free = solve(problem);
    for (SearchPins &pins : problem.pins)
      pins.moreInFlight = 0;
    SearchResult usual = solve(problem);
    EXPECT_EQ(most(usual), 0u);
    EXPECT_LE(free.simulation.stepSeconds, usual.simulation.stepSeconds);
    gained += most(free) > 0;
    for (SearchPins &pins : problem.pins)
      pins.moreInFlight = 2;
    for (const LayoutOption &option : solve(problem).layout)
      EXPECT_EQ(option.moreInFlight, 2u);
  }
  EXPECT_GT(gained, 0u);
}

TEST(Search, PipelinesSplitTheirBackwardWhereMemoryAllows) {
  SearchProblem problem = layered(16, 8, 3);
  problem.machine.kinds.front().memoryBytes = 200'000;
  problem.pins[1].stages = 4;
  SearchResult split = verified(problem, searchLayouts(problem));
  EXPECT_GT(split.layout[1].cut.splitStages, 0u);
  problem.pins[1].splitStages = 0;
  SearchResult whole = verified(problem, searchLayouts(problem));
  EXPECT_EQ(whole.layout[1].cut.splitStages, 0u);
  EXPECT_LT(split.simulation.stepSeconds, whole.simulation.stepSeconds);
}

TEST(Search, TheSameLargeProblemHasTheSameAnswer) {
  SearchResult first = solve(layered(64, 12, 7)), second = solve(layered(64, 12, 7));
  EXPECT_EQ(first.layout, second.layout);
  EXPECT_EQ(first.simulations, second.simulations);
}

TEST(Search, ADeadlineLeavesABaselineThatFits) {
  SearchProblem problem = layered(64, 12, 1);
  std::atomic<int> asked = 0; // Two searches ask, each on a thread of its own.
  problem.isOver = [&asked] { return ++asked > 6; };
  SearchResult result = solve(problem);
  EXPECT_TRUE(result.wasCutShort);
  EXPECT_NE(result.winner, "search");
  problem.isOver = [] { return true; };
  SearchResult first = solve(problem); // The first that fits.
  EXPECT_TRUE(first.wasCutShort);
  EXPECT_LE(first.simulations, 2u);
}

TEST(Search, TheNextBestAreDistinct) {
  SearchProblem problem = layered(16, 6, 2);
  problem.topK = 4;
  SearchResult result = solve(problem);
  ASSERT_EQ(result.ranked.size(), 4u);
  for (size_t i = 1; i < result.ranked.size(); ++i) {
    EXPECT_NE(result.ranked[i].layout, result.ranked[i - 1].layout);
    EXPECT_LE(result.ranked[i - 1].simulation.stepSeconds, result.ranked[i].simulation.stepSeconds);
  }
}

TEST(Search, PaddedTokensTellHowManyMicroBatchesThereAre) {
  SearchProblem problem = smallProblem(3); // Two samples and eight padded tokens at most.
  problem.steps = {{1, 5, 1, 5, 1, 3, 1, 5}};
  EXPECT_EQ(WorkTable(problem).microBatches(0, 0),
            4); // Not three: no two of them are padded to eight tokens, though all have eighteen.
  problem.steps = {{1, 4, 1, 2, 1, 3, 1, 4}};
  EXPECT_EQ(WorkTable(problem).microBatches(0, 0), 2);
}

TEST(Search, WorkHasWhatTheBestMicroBatchesPadOrCostInConstants) {
  SearchProblem problem = distillation(1, 1000, 1000);
  problem.steps = {{1, 2, 1, 8, 1, 4}};
  auto picoseconds = [&](int64_t perTask) { // Of the teacher, in micro-batches of at most two samples.
    problem.model.sections[0].classes[0][0].alone.at[1].forward.terms = {{1000, {0, 1}}, {perTask, {}}};
    return WorkTable(problem).work(0, {}, 1, 0, 1) * 1e12;
  };
  EXPECT_NEAR(picoseconds(0), 14'000, 0.1);
  EXPECT_NEAR(picoseconds(10), 14'030, 0.1);                // Each alone.
  EXPECT_NEAR(picoseconds(100'000), 16'000 + 200'000, 0.1); // Those of two and four tokens together.
}

TEST(Search, NoStepIsShorterThanTheLongestSamplesWay) {
  SearchProblem problem = layered(64, 12, 1);
  Ways ways(problem);
  const Ways::Times &times = ways.of(1, Recompute::None, 0);
  double way = ways.longest({nullptr, &times}); // The teacher may run ahead.
  EXPECT_EQ(way, ways.longest(times));
  EXPECT_EQ(way, *std::max_element(times.begin(), times.end()));
  SearchResult result = solve(problem);
  EXPECT_GE(result.lowerBoundSeconds, way * (1 - 1e-6));
  EXPECT_GE(result.simulation.stepSeconds, way);
}

/// The sections of a layout that train, as the table has them.
std::vector<PlacedCut> placedIn(const SearchProblem &problem, const CutTable &cuts, const Layout &layout) {
  std::vector<PlacedCut> placed;
  for (uint32_t s = 0; s < layout.size(); ++s) {
    const std::vector<CutFacts> &list = cuts.of(s);
    auto same = std::find_if(list.begin(), list.end(), [&](const CutFacts &facts) {
      return facts.cut.firstAtoms == layout[s].cut.firstAtoms && facts.cut.recompute == layout[s].cut.recompute;
    });
    EXPECT_NE(same, list.end()) << "a layout that the bound knows nothing of: " << describe(problem.model, layout);
    if (problem.model.sections[s].trains && same != list.end())
      placed.push_back({s, static_cast<uint32_t>(same - list.begin()), layout[s].microBatch, layout[s].devices});
  }
  return placed;
}

TEST(Search, NoLayoutOfTheSpaceBeatsItsSchedulesBound) {
  double tightness = 0;
  size_t layouts = 0, lighter = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SearchProblem problem = layered(16, 12, seed);
    WorkTable work(problem);
    CutTable cuts(problem, work, 16, false, 1);
    ScheduleBound bound(problem, cuts);
    for (const RankedLayout &own : solve(problem).simulated) {
      double least = bound.seconds(placedIn(problem, cuts, own.layout));
      EXPECT_LE(least, own.simulation.makespanSeconds * (1 + 1e-6)) << describe(problem.model, own.layout);
      tightness += least / own.simulation.makespanSeconds;
      ++layouts;
      lighter += own.layout[1].cut.recompute.lighter > 0;
    }
  }
  EXPECT_GE(layouts, 40u);
  EXPECT_GT(lighter, 0u);
  EXPECT_GT(tightness / static_cast<double>(layouts), 0.5); // The teacher's part is not in it.
}

TEST(Search, OneWayIsNoWorseThanAnotherThatHoldsLessOrTakesLonger) {
  SearchProblem problem = layered(16, 12, 1);
  WorkTable work(problem);
  CutTable cuts(problem, work, 16, false, 1);
  ScheduleBound bound(problem, cuts);
  auto find = [&](const RecomputeChoice &recompute) {
    const std::vector<CutFacts> &list = cuts.of(1);
    return static_cast<uint32_t>(std::find_if(list.begin(), list.end(),
                                              [&](const CutFacts &facts) {
                                                return facts.cut.stages() == 1 && facts.cut.recompute == recompute;
                                              }) -
                                 list.begin());
  };
  PlacedCut none{1, find({}), 1, {}}, selective{1, find({Recompute::Selective}), 1, {}}, smaller{1, find({}), 0, {}};
  EXPECT_TRUE(bound.isNoWorse(none, none));
  EXPECT_TRUE(bound.isNoWorse(none, selective));
  EXPECT_FALSE(bound.isNoWorse(selective, none));
  EXPECT_FALSE(bound.isNoWorse(smaller, none));
}

TEST(Search, TheBestFewAreToldApartByTunedSchedules) {
  SearchProblem problem = layered(16, 12, 2);
  SearchResult usual = solve(problem);
  problem.budget.finalists = 4;
  SearchResult tuned = solve(problem), again = solve(problem); // No longer than any baseline: verify().
  EXPECT_EQ(tuned.layout, again.layout);
  EXPECT_LE(tuned.simulation.stepSeconds, 1.02 * usual.simulation.stepSeconds);
  cost_models::Simulator simulator(problem.steps, problem.budget.mostTasks);
  auto stepOf = [&](const Layout &layout) {
    return simulator.runTuned(modelOf(problem, layout), problem.machine, choicesOf(layout))->stepSeconds;
  };
  EXPECT_LE(stepOf(tuned.layout), stepOf(usual.layout));
  ASSERT_TRUE(tuned.tuned.has_value());
  EXPECT_FALSE(usual.tuned.has_value());
  EXPECT_LE(tuned.tuned->stepSeconds, tuned.simulation.stepSeconds);
}

TEST(Search, SchedulesBeginWhereTheProblemSays) {
  SearchProblem problem = layered(16, 12, 2);
  SearchResult without = solve(problem);
  EXPECT_TRUE(without.hints.empty());
  wavefront::Choice hint;
  hint.recipe.bands = 4;
  problem.hints = {hint};
  SearchResult with = solve(problem); // verify() simulates it as the search did.
  EXPECT_EQ(with.hints, problem.hints);
  problem.starts = {without.layout};
  problem.budget.finalists = 4; // It is changed, too.
  SearchResult started = solve(problem);
  EXPECT_LE(started.tuned->stepSeconds, 1.02 * std::min(with.simulation.stepSeconds, without.simulation.stepSeconds));
}

TEST(Search, WhereTheBudgetEndsBeforeTheSpaceItGoesOnAsAtScale) {
  double worst = 1;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SearchProblem problem = layered(8, 8, seed);
    SearchResult whole = solve(problem);
    problem.budget.nodes = 8;
    problem.budget.simulations = 24;
    SearchResult few = solve(problem);
    EXPECT_FALSE(few.isProven);
    worst = std::max(worst, few.simulation.stepSeconds / whole.simulation.stepSeconds);
  }
  EXPECT_LT(worst, 1.05);
}

/// Whatever the estimates say of a section's own; what is asked next is not told of it.
TEST(Search, AHeldSectionHasTheShapeThatItIsHeldIn) {
  SearchProblem problem = layered(16, 12, 2);
  WorkTable work(problem);
  CutTable cuts(problem, work, 16, false);
  Shapes shapes(problem, cuts, work);
  auto describeAll = [&] {
    std::vector<std::string> all;
    for (const Shape &shape : shapes.best(100, 1, 1))
      all.push_back(describe(problem.model, shapes.layoutOf(shape)));
    return all;
  };
  const std::vector<std::string> usual = describeAll();
  ASSERT_FALSE(usual.empty());
  size_t shapesFound = 0; // Some do not fit.
  for (auto [replicas, stages] : {std::pair(4u, 2u), std::pair(2u, 4u), std::pair(8u, 1u), std::pair(3u, 4u)}) {
    std::vector<Shape> found = shapes.bestWith({1, replicas, stages}, 1, 1);
    shapesFound += found.size();
    for (const Shape &shape : found) {
      EXPECT_EQ(shape.options[1].replicas, replicas);
      EXPECT_EQ(cuts.of(1)[shape.options[1].cut].cut.stages(), stages);
    }
  }
  EXPECT_GT(shapesFound, 0u);
  EXPECT_TRUE(shapes.bestWith({1, 5, 4}, 1, 1).empty()); // 20 devices of 16.
  EXPECT_EQ(describeAll(), usual);
}

TEST(Search, StageByStageReplicasAreNeighbours) {
  LayoutOption option = placed({{1, 2}, Recompute::None}, 0, 2, {8, 9, 10, 11, 12, 13}, true);
  EXPECT_EQ(option.devices, (std::vector<std::vector<uint32_t>>{{8, 10, 12}, {9, 11, 13}}));
  EXPECT_TRUE(isByStage(option));
  EXPECT_FALSE(isByStage(placed({{1, 2}, Recompute::None}, 0, 2, {8, 9, 10, 11, 12, 13})));
}

TEST(Search, ProblemsAreChecked) {
  SearchProblem problem = distillation(2, 1000, 1000);
  problem.pins[0].devices = std::vector<uint32_t>{2};
  EXPECT_NE(check(problem).message().find("device 2 of 2"), std::string::npos);
  problem = distillation(2, 1000, 1000);
  problem.pins[1].stages = 3;
  EXPECT_NE(check(problem).message().find("3 stages"), std::string::npos);
  problem = distillation(2, 1000, 1000);
  problem.steps.front().pop_back();
  EXPECT_NE(check(problem).message().find("31 sizes for 2 dims"), std::string::npos);
  problem = distillation(2, 1000, 1000);
  problem.model.sections[0].classes[0][0].alone.at.pop_back();
  EXPECT_FALSE(check(problem).isOk());
}

TEST(Search, VerifyFindsWhatIsWrong) {
  SearchProblem problem = distillation(2, 40'000, 30'000);
  SearchResult result = solve(problem);
  SearchResult wrong = result;
  wrong.simulation.stepSeconds *= 0.5;
  EXPECT_FALSE(verify(problem, wrong).isOk());
  wrong = result;
  wrong.layout[0].devices = {{7}};
  EXPECT_FALSE(verify(problem, wrong).isOk());
  problem.pins[0].microBatch = result.layout[0].microBatch == 0 ? 1 : 0;
  EXPECT_FALSE(verify(problem, result).isOk());
}

} // namespace
} // namespace maestro::planner
