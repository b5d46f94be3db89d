#include "planner/search/groupings.h"
#include "planner/search/lower_bound.h"
#include "planner/search/moves.h"
#include "planner/search/search.h"
#include "small_problems.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

namespace maestro::planner {
namespace {

SearchResult searched(const SearchProblem &problem) { return verified(problem, searchLayouts(problem)); }

TEST(Search, EveryGroupingIsABeginning) {
  SearchProblem problem = distillation(3, 1000, 1000);
  auto groupings = [&] {
    Cuts cuts(problem);
    Estimator estimator(problem, cuts);
    std::set<size_t> groups;
    for (const Layout &layout : bestOfGroupings(problem, cuts, estimator, {}, 8)) {
      groups.insert(layout.groups.size());
      std::vector<uint8_t> used(problem.machine.devices, 0); // By a group.
      for (const DeviceGroup &group : layout.groups)
        for (uint32_t device : devicesOf(place(layout, problem.machine)[group.sections.front()]))
          EXPECT_EQ(used[device]++, 0);
    }
    return groups;
  };
  EXPECT_EQ(groupings(), (std::set<size_t>{1, 2})); // Together, and apart.
  problem.pins[0].devices = std::vector<uint32_t>{2};
  EXPECT_EQ(groupings(), (std::set<size_t>{2}));
}

TEST(Search, StageByStageReplicasAreNeighbours) {
  cost_models::Machine machine;
  machine.devices = 14;
  SectionOption option{{{1, 2}, Recompute::None}, 0, 2, 0};
  DeviceGroup group{{0}, 6, 1, true, {8, 9, 10, 11, 12, 13}};
  using Devices = std::vector<std::vector<uint32_t>>;
  EXPECT_EQ(place({{group}, {option}}, machine)[0].devices, (Devices{{8, 10, 12}, {9, 11, 13}}));
  group.byStage = false;
  EXPECT_EQ(place({{group}, {option}}, machine)[0].devices, (Devices{{8, 9, 10}, {11, 12, 13}}));
  group.pinned.clear();
  EXPECT_EQ(place({{group}, {option}}, machine)[0].devices, (Devices{{0, 1, 2}, {3, 4, 5}}));
}

TEST(Search, GroupsOfWholeNodesComeFirst) {
  cost_models::Machine machine;
  machine.devices = 8;
  machine.links = {{"inner", 4, cost_models::gigabytesPerSecond(450), cost_models::microseconds(2)},
                   {"outer", 8, cost_models::gigabytesPerSecond(50), cost_models::microseconds(6)}};
  SectionOption one{{}, 0, 1, 0};
  Layout layout{{{{0}, 3, 1, false, {}}, {{1}, 4, 1, false, {}}}, {one, one}};
  CompoundLayout placed = place(layout, machine);
  EXPECT_EQ(placed[0].devices[0][0], 4u);
  EXPECT_EQ(placed[1].devices[0][0], 0u);
}

/// Each move changes what it is named after, and pins are obeyed.
TEST(Search, MovesChangeOneDecision) {
  SearchProblem problem = layered(16, 12, 3);
  problem.machine.kinds.front().memoryBytes = 200'000;
  SearchResult result = searched(problem);
  Cuts cuts(problem);
  Estimator estimator(problem, cuts);
  Candidates candidates(problem);
  MoveContext context{problem, cuts, estimator, candidates};
  size_t changes = 0;
  for (const NamedMove &move : kMoves)
    for (const Layout &next : move.move(context, result.layout)) {
      EXPECT_NE(next, result.layout) << move.name;
      uint64_t devices = 0;
      for (const DeviceGroup &group : next.groups) {
        devices += group.devices;
        for (uint32_t section : group.sections)
          EXPECT_LE(next.sections[section].stations(), group.devices) << move.name;
      }
      EXPECT_LE(devices, problem.machine.devices) << move.name;
      if (move.keepsGroups) {
        for (size_t g = 0; g < next.groups.size(); ++g)
          EXPECT_EQ(next.groups[g].devices, result.layout.groups[g].devices) << move.name;
      }
      ++changes;
    }
  EXPECT_GT(changes, 20u);
  for (SearchPins &pins : problem.pins) {
    pins.microBatch = 1;
    pins.dataParallel = 2;
    pins.stages = 2;
    pins.splitStages = 0;
    pins.moreInFlight = 0;
    pins.recompute = RecomputeChoice();
  }
  SearchResult pinned = searched(problem);
  for (const NamedMove &move : kMoves)
    for (const Layout &next : move.move(context, pinned.layout))
      EXPECT_TRUE(obeys(problem, next)) << move.name;
}

/// What is left out, by name, leaves its decision as the beginnings have it.
TEST(Search, MovesCanBeLeftOut) {
  uint32_t splits = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SearchProblem problem = layered(16, 8, seed);
    problem.machine.kinds.front().memoryBytes = 200'000;
    problem.pins[1].stages = 4;
    for (const SectionOption &option : searched(problem).layout.sections)
      splits += option.cut.splitStages > 0;
    problem.without = {"split_backward"};
    for (const SectionOption &option : searched(problem).layout.sections)
      EXPECT_EQ(option.cut.splitStages, 0u);
  }
  EXPECT_GT(splits, 0u);
}

TEST(Search, DevicesReadAsRanges) {
  EXPECT_EQ(ranges({3, 0, 1, 2, 2, 7, 5, 6}), "0-3,5-7");
  EXPECT_EQ(ranges({4}), "4");
  EXPECT_EQ(ranges({}), "");
}

TEST(Search, BaselinesAreAlwaysCompared) {
  SearchResult result = searched(distillation(2, 40'000, 30'000));
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
  SearchResult result = searched(problem);
  EXPECT_EQ(result.winner, "all data parallel");
  EXPECT_EQ(result.layout.sections[0].replicas, 2u);
  EXPECT_EQ(result.layout.sections[1].replicas, 2u);
}

TEST(Search, ExpensiveReductionSeparatesSections) {
  SearchProblem problem = distillation(2, 90'000, 30'000); // Equal work a device when apart.
  problem.machine.kinds.front().rates.stream =
      cost_models::BytesPerSecond(2e6); // The student's gradients take long to add up.
  SearchResult result = searched(problem);
  EXPECT_EQ(result.layout.sections[1].replicas, 1u);
  EXPECT_LT(result.simulation.stepSeconds, row(result, "one layout for all").simulation.stepSeconds);
}

TEST(Search, WhatDoesNotFitIsNoCandidate) {
  SearchProblem problem = distillation(2, 40'000, 40'000);
  problem.machine.kinds.front().rates.stream = cost_models::BytesPerSecond(1e12);
  problem.machine.kinds[0].memoryBytes = 4800; // The student alone, or the teacher; not both on one device.
  SearchResult result = searched(problem);
  EXPECT_EQ(result.layout.groups.size(), 2u);
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
  SearchResult result = searched(problem);
  EXPECT_EQ(place(result.layout, problem.machine)[0].devices, (std::vector<std::vector<uint32_t>>{{3}}));
  EXPECT_EQ(result.layout.sections[1].replicas, 3u);
  EXPECT_EQ(result.layout.sections[1].microBatch, 0u);
}

TEST(Search, TheSameProblemHasTheSameAnswer) {
  SearchProblem problem = distillation(4, 70'000, 20'000);
  problem.budget.simulations = 6; // Cut short, which is where an order could leak in.
  SearchResult first = searched(problem), second = searched(problem);
  EXPECT_EQ(first.layout, second.layout);
  EXPECT_EQ(first.simulations, second.simulations);
}

TEST(Search, NeverWorseThanABaselineHoweverShortTheBudget) {
  for (uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto work = [&](uint64_t part) { return static_cast<int64_t>(10'000 + seed * 7919 * part % 90'000); };
    SearchProblem problem = distillation(2 + seed % 7, work(1), work(3));
    problem.budget.simulations = static_cast<uint32_t>(1 + seed % 5);
    SearchResult result = searched(problem); // verify() compares it with every row.
    for (const ComparedLayout &other : result.compared)
      EXPECT_TRUE(other.possible) << other.name;
  }
}

TEST(Search, ManyDevices) {
  for (uint32_t devices : {16u, 64u, 512u})
    for (uint64_t seed = 0; seed < (devices > 64 ? 1 : 3); ++seed) {
      SCOPED_TRACE(std::to_string(devices) + " devices, seed " + std::to_string(seed));
      SearchProblem problem = layered(devices, 12, seed);
      SearchResult result =
          searched(problem); // verify() compares it with every row, and the bound with all it simulated.
      EXPECT_GE(result.simulated.size(), 16u);
      std::printf("%u devices: %s: %.3g s, bound %.3g (%.1f %%), %u simulated\n", devices,
                  describe(problem.model, problem.machine, result.layout).c_str(), result.simulation.stepSeconds,
                  result.lowerBoundSeconds, 100 * (result.simulation.stepSeconds / result.lowerBoundSeconds - 1),
                  result.simulations);
    }
}

TEST(Search, MoreMicroBatchesAreInFlightWherePinned) {
  SearchProblem problem = layered(16, 12, 0);
  for (SearchPins &pins : problem.pins)
    pins.moreInFlight = 2;
  for (const SectionOption &option : searched(problem).layout.sections)
    EXPECT_EQ(option.moreInFlight, 2u);
}

TEST(Search, PipelinesSplitTheirBackwardWhereThatGains) {
  uint32_t gained = 0;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SearchProblem problem = layered(16, 8, seed);
    problem.machine.kinds.front().memoryBytes = 200'000;
    problem.pins[1].stages = 4;
    SearchResult free = searched(problem);
    problem.pins[1].splitStages = 0;
    SearchResult whole = searched(problem);
    EXPECT_EQ(whole.layout.sections[1].cut.splitStages, 0u);
    EXPECT_LE(free.simulation.stepSeconds, 1.01 * whole.simulation.stepSeconds);
    gained += free.layout.sections[1].cut.splitStages > 0 && free.simulation.stepSeconds < whole.simulation.stepSeconds;
  }
  EXPECT_GE(gained, 1u);
}

TEST(Search, TheSameLargeProblemHasTheSameAnswer) {
  SearchResult first = searched(layered(64, 12, 7)), second = searched(layered(64, 12, 7));
  EXPECT_EQ(first.layout, second.layout);
  EXPECT_EQ(first.simulations, second.simulations);
}

TEST(Search, ADeadlineLeavesABaselineThatFits) {
  SearchProblem problem = layered(64, 12, 1);
  std::atomic<int> asked = 0;
  problem.isOver = [&asked] { return ++asked > 6; };
  SearchResult result = searched(problem);
  EXPECT_TRUE(result.wasCutShort);
  EXPECT_NE(result.winner, "search");
  problem.isOver = [] { return true; };
  SearchResult first = searched(problem); // The first that fits.
  EXPECT_TRUE(first.wasCutShort);
  EXPECT_LE(first.simulations, 4u); // Those beside it.
}

TEST(Search, TheNextBestAreDistinct) {
  SearchProblem problem = layered(16, 6, 2);
  problem.topK = 4;
  SearchResult result = searched(problem);
  ASSERT_EQ(result.ranked.size(), 4u);
  for (size_t i = 1; i < result.ranked.size(); ++i) {
    EXPECT_NE(result.ranked[i].layout, result.ranked[i - 1].layout);
    EXPECT_LE(result.ranked[i - 1].simulation.stepSeconds, result.ranked[i].simulation.stepSeconds);
  }
}

TEST(Search, PaddedTokensTellHowManyMicroBatchesThereAre) {
  SearchProblem problem = smallProblem(3); // Two samples and eight padded tokens at most.
  problem.steps = {{1, 5, 1, 5, 1, 3, 1, 5}};
  EXPECT_EQ(WorkTable(problem).microBatches(0, 0), 3);
  problem.steps = {{1, 4, 1, 2, 1, 3, 1, 4}};
  EXPECT_EQ(WorkTable(problem).microBatches(0, 0), 2);
}

TEST(Search, WorkHasTheConstantsOfTheFewestMicroBatches) {
  SearchProblem problem = distillation(1, 1000, 1000);
  problem.steps = {{1, 2, 1, 8, 1, 4}};
  auto picoseconds = [&](int64_t perTask) { // Of the teacher, in micro-batches of at most two samples.
    cost_models::AtomClasses classes = problem.model.classesOf(0, {});
    classes[0].alone.at[1].forward.terms = {{1000, {0, 1}}, {perTask, {}}};
    problem.model.costs->put(0, {}, std::move(classes));
    return WorkTable(problem).work(0, {}, 1, 0, 1) * 1e12;
  };
  EXPECT_NEAR(picoseconds(0), 14'000, 0.1);
  EXPECT_NEAR(picoseconds(100'000), 14'000 + 200'000, 0.1); // Two micro-batches of three samples.
}

TEST(Search, NoStepIsShorterThanTheCriticalPath) {
  SearchProblem problem = layered(64, 12, 1);
  CriticalPaths paths(problem);
  const CriticalPaths::Times &times = paths.of(1, Recompute::None, 0);
  double longest = paths.longest({nullptr, &times}); // The teacher may run ahead.
  EXPECT_EQ(longest, paths.longest(times));
  EXPECT_EQ(longest, *std::max_element(times.begin(), times.end()));
  SearchResult result = searched(problem);
  EXPECT_GE(result.lowerBoundSeconds, longest * (1 - 1e-6));
  EXPECT_GE(result.simulation.stepSeconds, longest);
}

TEST(Search, VariantsThatCannotBeChosenAreNotMeasured) {
  for (uint32_t devices : {1u, 8u}) {
    SearchProblem problem = layered(devices, 4, 1);
    problem.machine.kinds.front().memoryBytes = 1'000'000;
    cost_models::AtomCosts::Known all = problem.model.costs->known(), usual = all;
    std::erase_if(usual, [](const auto &own) { return own.first.second != cost_models::Variant{}; });
    std::set<cost_models::Variant> asked;
    auto measure = [&](const cost_models::Variant &variant) {
      EXPECT_TRUE(asked.insert(variant).second) << "once";
      std::map<uint32_t, cost_models::AtomClasses> costs;
      for (const auto &[key, classes] : all)
        if (key.second == variant)
          costs[key.first] = classes;
      return Result(std::move(costs));
    };
    problem.model.costs = std::make_shared<cost_models::AtomCosts>(measure, usual);
    searched(problem);
    EXPECT_TRUE(asked.count({Recompute::Selective}));
    EXPECT_EQ(asked.count({Recompute::None, true}), devices > 1) << "one stage gains nothing by a split backward";
  }
}

/// The student may have its losses in two chunks, which take a tenth more time and hold half as much.
SearchProblem chunked() {
  SearchProblem problem = distillation(1, 1000, 1000);
  AtomicModel &model = problem.model;
  cost_models::AtomClasses classes = model.classesOf(1, {});
  for (cost_models::AtomClass &own : classes)
    for (cost_models::StageModel *stage : {&own.alone, &own.pair})
      for (cost_models::StageCosts &costs : stage->at) {
        costs.backward.terms.front().picoseconds += costs.backward.terms.front().picoseconds / 10;
        costs.slotBytes /= 2;
      }
  cost_models::Variant variant{Recompute::None, false, 2};
  model.costs->put(1, variant, std::move(classes));
  model.sections[1].variants.insert(variant);
  model.sections[1].lossChunks = {2};
  problem.pins[0].microBatch = problem.pins[1].microBatch = 2;
  return problem;
}

TEST(Search, LossesAreInChunksWhereMemoryIsShort) {
  SearchProblem problem = chunked();
  SearchResult roomy = searched(problem);
  EXPECT_EQ(roomy.layout.sections[1].cut.recompute.lossChunks, 1u);
  std::vector<uint64_t> bytes = cost_models::deviceBytes(modelOf(problem.model, roomy.layout), problem.machine,
                                                         place(roomy.layout, problem.machine));
  problem.machine.kinds.front().memoryBytes = bytes.front() - 1;
  SearchResult tight = searched(problem);
  EXPECT_EQ(tight.layout.sections[1].cut.recompute.lossChunks, 2u);
  EXPECT_GT(tight.simulation.stepSeconds, roomy.simulation.stepSeconds);
  problem.pins[1].lossChunks = 1;
  EXPECT_FALSE(searchLayouts(problem).isOk());
}

TEST(Search, ChunksOfLossesArePinned) {
  SearchProblem problem = chunked();
  problem.pins[1].lossChunks = 2;
  EXPECT_EQ(searched(problem).layout.sections[1].cut.recompute.lossChunks, 2u);
  problem.pins[1].lossChunks = 3;
  EXPECT_NE(check(problem).message().find("losses in 3 chunks"), std::string::npos);
}

TEST(Search, ACostThatCannotBeMeasuredEndsTheSearch) {
  SearchProblem problem = distillation(2, 1000, 1000);
  problem.model.sections[1].variants.insert({Recompute::Full});
  auto measure = [](const cost_models::Variant &) -> Result<std::map<uint32_t, cost_models::AtomClasses>> {
    return Status::invalidInput("no such programs");
  };
  problem.model.costs = std::make_shared<cost_models::AtomCosts>(measure, problem.model.costs->known());
  EXPECT_EQ(searchLayouts(problem).status().message(), "no such programs");
}

TEST(Search, SchedulesBeginWhereTheProblemSays) {
  SearchProblem problem = layered(16, 12, 2);
  EXPECT_TRUE(searched(problem).hints.empty());
  wavefront::Choice hint;
  hint.lengthBands = 4;
  problem.hints = {hint};
  SearchResult with = searched(problem); // verify() simulates it as the search did.
  EXPECT_EQ(with.hints, problem.hints);
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
  cost_models::AtomClasses classes = problem.model.classesOf(0, {});
  classes[0].alone.at.pop_back();
  problem.model.costs->put(0, {}, std::move(classes));
  EXPECT_FALSE(check(problem).isOk());
}

TEST(Search, VerifyFindsWhatIsWrong) {
  SearchProblem problem = distillation(2, 40'000, 30'000);
  SearchResult result = searched(problem);
  SearchResult wrong = result;
  wrong.simulation.stepSeconds *= 0.5;
  EXPECT_FALSE(verify(problem, wrong).isOk());
  wrong = result;
  wrong.layout.groups[0].pinned = {7};
  EXPECT_FALSE(verify(problem, wrong).isOk());
  wrong = result;
  wrong.layout.groups[0].width = 2;
  EXPECT_NE(verify(problem, wrong).message().find("stations of 2 devices"), std::string::npos);
  wrong = result;
  wrong.lowerBoundSeconds = 1.001 * result.simulated.front().simulation.stepSeconds;
  EXPECT_FALSE(verify(problem, wrong).isOk());
  problem.pins[0].microBatch = result.layout.sections[0].microBatch == 0 ? 1 : 0;
  EXPECT_FALSE(verify(problem, result).isOk());
}

} // namespace
} // namespace maestro::planner
