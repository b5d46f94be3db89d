// Layouts of the user's own beside the search's: what obeys is the answer, what pins cost is said, and they never gain.
#include "planner/explain/explain.h"
#include "planner/search/pinned.h"
#include "planner/search/search.h"
#include "small_problems.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace maestro::planner {
namespace {

using testing::HasSubstr;

SearchResult solve(const SearchProblem &problem) { return verified(problem, searchBesidePins(problem)); }

/// The student on one device, the teacher on the other three, which is far from balanced.
SearchProblem lopsided() {
  SearchProblem problem = distillation(4, 10'000, 60'000);
  problem.pins[0].devices = std::vector<uint32_t>{0, 1, 2};
  problem.pins[1].devices = std::vector<uint32_t>{3};
  return problem;
}

TEST(Pinned, WithoutPinsItIsTheSearch) {
  SearchProblem problem = distillation(4, 40'000, 30'000);
  auto searched = searchLayouts(problem);
  ASSERT_TRUE(searched.isOk());
  SearchResult result = solve(problem);
  EXPECT_EQ(result.layout, searched->layout);
  EXPECT_EQ(result.winner, searched->winner);
  EXPECT_FALSE(costOfPins(result).has_value());
}

TEST(Pinned, WhatObeysIsTheAnswerAndTheRestIsForComparison) {
  SearchProblem problem = lopsided();
  SearchResult result = solve(problem);
  EXPECT_EQ(result.winner, "pinned");
  EXPECT_EQ(result.compared.front().name, "pinned");
  EXPECT_EQ(place(result.layout, problem.machine)[1].devices, (std::vector<std::vector<uint32_t>>{{3}}));
  auto open = searchLayouts(withoutPins(problem));
  ASSERT_TRUE(open.isOk());
  EXPECT_EQ(row(result, "search").simulation.stepSeconds, open->simulation.stepSeconds);
  EXPECT_GT(*costOfPins(result), 1.2);
  EXPECT_DOUBLE_EQ(*costOfPins(result), result.simulation.stepSeconds / open->simulation.stepSeconds);
  for (const char *name : {"search", "all data parallel", "one layout for all", "static split"})
    EXPECT_TRUE(row(result, name).isWithoutPins) << name;
  EXPECT_EQ(row(result, "all data parallel").layout.sections[1].replicas, 4u);
}

TEST(Pinned, TheSearchWithoutThemIsNeverWorseThanABaseline) {
  SearchResult result = solve(lopsided());
  for (const ComparedLayout &other : result.compared)
    if (other.isWithoutPins && !other.inFileOrder) {
      EXPECT_LE(row(result, "search").simulation.stepSeconds, other.simulation.stepSeconds) << other.name;
    }
}

TEST(Pinned, PinningWhatTheSearchChoosesCostsNothing) {
  SearchProblem problem = distillation(4, 70'000, 30'000);
  SearchResult best = solve(problem);
  for (size_t s = 0; s < 2; ++s) {
    std::set<uint32_t> devices = devicesOf(place(best.layout, problem.machine)[s]);
    problem.pins[s].devices = std::vector<uint32_t>(devices.begin(), devices.end());
    problem.pins[s].dataParallel = best.layout.sections[s].replicas;
    problem.pins[s].microBatch = best.layout.sections[s].microBatch;
  }
  EXPECT_DOUBLE_EQ(*costOfPins(solve(problem)), 1.0);
}

/// However little the comparison may spend, the pinned layout is one of its candidates.
TEST(Pinned, PinsNeverGain) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SearchProblem problem = smallProblem(seed);
    problem.pins[0].microBatch = static_cast<uint32_t>(seed % problem.model.microBatches.size());
    problem.budget.simulations = static_cast<uint32_t>(1 + seed % 7);
    auto result = searchBesidePins(problem);
    if (!result.isOk())
      continue;
    Status verified = verify(problem, *result);
    EXPECT_TRUE(verified.isOk()) << verified.message();
    ASSERT_TRUE(costOfPins(*result).has_value());
    EXPECT_GE(*costOfPins(*result), 1.0);
  }
}

TEST(Pinned, AtScale) {
  SearchProblem problem = layered(64, 12, 7);
  problem.pins[0].dataParallel = 8;
  SearchResult result = solve(problem);
  EXPECT_EQ(result.layout.sections[0].replicas, 8u);
  EXPECT_GE(*costOfPins(result), 1.0);
  SearchResult again = solve(problem);
  EXPECT_EQ(again.layout, result.layout);
  EXPECT_EQ(*costOfPins(again), *costOfPins(result));
}

/// Who says how many replicas run on which devices does not ask for more stages than these have room for.
TEST(Pinned, ReplicasHaveDevicesOfTheirOwnWhereStagesAreFree) {
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (uint32_t section : {0u, 1u}) {
      SCOPED_TRACE(fmt::format("seed {}, section {}", seed, section));
      SearchProblem problem = layered(16, 8, seed);
      problem.machine.kinds.front().memoryBytes = 200'000;
      problem.pins[section].devices = std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7};
      problem.pins[section].dataParallel = 4;
      EXPECT_LE(solve(problem).layout.sections[section].stages(), 2u);
    }
}

TEST(Pinned, StagesMayShareDevices) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    SearchProblem problem = layered(16, 8, seed);
    problem.machine.kinds.front().memoryBytes = 200'000;
    problem.pins[1].devices = std::vector<uint32_t>{14, 15};
    problem.pins[1].stages = 3;
    SearchResult result = solve(problem);
    EXPECT_EQ(result.layout.sections[1].replicas, 1u);
    EXPECT_EQ(result.layout.sections[1].stages(), 3u);
  }
}

/// Its student's micro-batches are so small that few of the teacher's large ones wait for their gradients: fewer than
/// is usual, so that they fit.
TEST(Pinned, WhatFitsBesideFewPlacesIsFound) {
  SearchProblem problem = layered(16, 12, 2);
  problem.machine.kinds.front().memoryBytes = 50'000;
  problem.model.sections[0].trains = true;
  for (cost_models::AtomTensor &tensor : problem.model.tensors)
    if (tensor.section == 0)
      tensor.gradient = true;
  problem.pins[0].stages = 1;
  problem.pins[0].microBatch = 3;
  problem.pins[1].microBatch = 0;
  EXPECT_EQ(solve(problem).layout.sections[0].microBatch, 3u);
}

TEST(Pinned, ARecomputeHolds) {
  for (uint32_t devices : {4u, 16u})
    for (const RecomputeChoice &recompute :
         {RecomputeChoice(), RecomputeChoice(Recompute::Selective), RecomputeChoice(Recompute::Full),
          RecomputeChoice(Recompute::Selective, 1), RecomputeChoice(Recompute::Full, 3),
          RecomputeChoice(Recompute::Full, 3, true)}) {
      SCOPED_TRACE(fmt::format("{} devices, {}", devices, textOf(recompute)));
      SearchProblem problem = layered(devices, 6, 3);
      problem.machine.kinds.front().memoryBytes = 200'000;
      problem.pins[1].recompute = recompute;
      SearchResult result = solve(problem);
      EXPECT_EQ(result.layout.sections[1].cut.recompute, recompute);
      auto why = explain(problem, result, result.simulation);
      EXPECT_TRUE(why.isOk()) << why.status().message();
    }
}

TEST(Pinned, ASplitBackwardHolds) {
  for (uint32_t devices : {4u, 16u})
    for (uint32_t splits : {0u, 1u, 2u, 64u}) {
      SCOPED_TRACE(fmt::format("{} devices, {}", devices, splits));
      SearchProblem problem = layered(devices, 6, 3);
      problem.machine.kinds.front().memoryBytes = 200'000;
      problem.pins[1].stages = 2;
      problem.pins[1].splitStages = splits;
      SearchResult result = solve(problem);
      EXPECT_EQ(result.layout.sections[1].cut.splitStages, std::min(splits, 2u));
      auto why = explain(problem, result, result.simulation);
      EXPECT_TRUE(why.isOk()) << why.status().message();
    }
}

TEST(Pinned, WhereNothingObeysItIsSaidWhatWouldFit) {
  SearchProblem problem = distillation(2, 40'000, 40'000);
  problem.machine.kinds[0].memoryBytes = 4800; // The student alone, or the teacher; not both on one device.
  problem.pins[0].devices = problem.pins[1].devices = std::vector<uint32_t>{0};
  auto result = searchBesidePins(problem);
  ASSERT_FALSE(result.isOk());
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("with these pins no layout fits"));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("without them this fits: teacher 1 on"));
}

TEST(Pinned, TheExplanationNamesTheRows) {
  SearchProblem problem = lopsided();
  SearchResult result = solve(problem);
  auto why = explain(problem, result, result.simulation);
  ASSERT_TRUE(why.isOk()) << why.status().message();
  std::vector<std::string> subjects;
  for (const Candidate &candidate : why->candidates)
    if (candidate.kind == Candidate::Kind::Layout)
      subjects.push_back(candidate.subject);
  EXPECT_THAT(subjects, testing::ElementsAre("pinned", "search without pins", "all data parallel without pins",
                                             "one layout for all without pins", "static split without pins"));
  EXPECT_THAT(why->candidates.front().reason, HasSubstr("the pins cost"));
}

} // namespace
} // namespace maestro::planner
