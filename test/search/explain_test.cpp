// Explanations against what simulating and counting by hand says.
#include "planner/explain/explain.h"
#include "planner/search/search.h"
#include "small_problems.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace maestro::planner {
namespace {

using testing::HasSubstr;

struct Explained {
  explicit Explained(SearchProblem given, ExplainBudget budget = {}) : problem(std::move(given)) {
    auto found = searchLayouts(problem);
    EXPECT_TRUE(found.isOk()) << found.status().message();
    result = *std::move(found);
    auto why = explain(problem, result, result.simulation, budget);
    EXPECT_TRUE(why.isOk()) << why.status().message();
    explanation = *std::move(why);
  }

  const Candidate *candidate(Candidate::Kind kind, const std::string &subject) const {
    for (const Candidate &row : explanation.candidates)
      if (row.kind == kind && row.subject == subject)
        return &row;
    return nullptr;
  }
  double simulated(const Layout &layout) const {
    cost_models::Simulator simulator(problem.steps);
    auto simulation = simulator.run(modelOf(problem.model, layout), problem.machine, place(layout, problem.machine),
                                    wavefront::Order::Wavefront);
    EXPECT_TRUE(simulation.isOk()) << simulation.status().message();
    return simulation->stepSeconds;
  }

  SearchProblem problem;
  SearchResult result;
  Explanation explanation;
};

constexpr auto kLayout = Candidate::Kind::Layout;
constexpr auto kAlternative = Candidate::Kind::Alternative;
constexpr auto kWhatIf = Candidate::Kind::WhatIf;

TEST(Explain, ThePlanIsTheFirstOfTheComparison) {
  Explained e(distillation(2, 40'000, 30'000));
  ASSERT_FALSE(e.explanation.candidates.empty());
  const Candidate &own = e.explanation.candidates.front();
  EXPECT_EQ(own.subject, e.result.winner);
  EXPECT_EQ(own.stepSeconds, e.result.simulation.stepSeconds);
  EXPECT_EQ(own.choice, describe(e.problem.model, e.problem.machine, e.result.layout));
  for (const ComparedLayout &row : e.result.compared)
    if (row.name != e.result.winner && row.name != "search") {
      EXPECT_EQ(e.candidate(kLayout, row.name)->stepSeconds, row.simulation.stepSeconds) << row.name;
    }
}

/// The next best size of micro-batches, found here by trying all.
TEST(Explain, TheNextBestValueIsTheBestOfTheOthers) {
  Explained e(distillation(4, 70'000, 20'000));
  const AtomicModel &model = e.problem.model;
  for (uint32_t s = 0; s < 2; ++s) {
    double best = INFINITY;
    std::string choice;
    for (uint32_t m = 0; m < model.microBatches.size(); ++m) {
      Layout layout = e.result.layout;
      layout.sections[s].microBatch = m;
      if (layout == e.result.layout || e.simulated(layout) >= best)
        continue;
      best = e.simulated(layout);
      choice = describe(model.sections[s].capacities[m]);
    }
    const Candidate *row = e.candidate(kAlternative, model.sections[s].name + ".micro_batch");
    ASSERT_NE(row, nullptr);
    EXPECT_EQ(row->stepSeconds, best);
    EXPECT_EQ(row->choice, choice);
  }
}

/// Where the search looked at everything near its answer, one decision changed is never faster, and no alternative is
/// the plan itself.
TEST(Explain, NothingBeatsAnAnswerThatLookedAtEverything) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SearchProblem problem = smallProblem(seed);
    if (!searchLayouts(problem).isOk()) // Some have no layout that fits.
      continue;
    Explained e(problem);
    for (const Candidate &row : e.explanation.candidates) {
      bool isPinned = row.reason.find("pinned") != row.reason.npos;
      if (row.kind == kAlternative && row.missingBytes == 0 && !isPinned) {
        EXPECT_GE(row.stepSeconds, e.result.simulation.stepSeconds) << row.subject << " = " << row.choice;
      }
      if (row.kind == kWhatIf) {
        EXPECT_LE(row.stepSeconds, e.result.simulation.stepSeconds * (1 + 1e-9)) << row.subject;
      }
    }
  }
}

TEST(Explain, WhatLacksMemorySaysHowMuch) {
  SearchProblem problem = distillation(2, 40'000, 40'000);
  problem.machine.kinds[0].rates.stream = cost_models::BytesPerSecond(1e12);
  problem.machine.kinds[0].memoryBytes = 4800; // The student alone, or the teacher; not both on one device.
  Explained e(problem);
  const Candidate *parallel = e.candidate(kLayout, "all data parallel");
  ASSERT_NE(parallel, nullptr);
  EXPECT_EQ(parallel->stepSeconds, 0);
  EXPECT_GT(parallel->missingBytes, 0u);
  EXPECT_THAT(parallel->reason, HasSubstr("lacks"));
  const Candidate *devices = e.candidate(kAlternative, "student.devices");
  ASSERT_NE(devices, nullptr); // On both devices, or the teacher's: both lack memory.
  EXPECT_GT(devices->missingBytes, 0u);
  EXPECT_THAT(e.candidate(kWhatIf, "devices' memory")->reason, HasSubstr("for "));
  EXPECT_LT(e.candidate(kWhatIf, "devices' memory")->stepSeconds, e.result.simulation.stepSeconds);
}

TEST(Explain, TheFullestDeviceIsALimit) {
  SearchProblem problem = distillation(2, 40'000, 40'000);
  problem.machine.kinds[0].memoryBytes = 10'000;
  Explained e(problem);
  std::vector<uint64_t> bytes = cost_models::deviceBytes(modelOf(problem.model, e.result.layout), problem.machine,
                                                         place(e.result.layout, problem.machine));
  const Limit &memory = e.explanation.limits.back();
  EXPECT_EQ(memory.kind, Limit::Kind::Memory);
  EXPECT_EQ(memory.used, static_cast<double>(*std::max_element(bytes.begin(), bytes.end())));
  EXPECT_EQ(memory.limit, 10'000);
  const Limit &busiest = e.explanation.limits.front();
  const std::vector<double> &busy = e.result.simulation.deviceBusySeconds;
  EXPECT_EQ(busiest.used, *std::max_element(busy.begin(), busy.end()));
  EXPECT_EQ(busiest.limit, e.result.simulation.stepSeconds);
}

/// A reduction that takes most of the step: twice the bandwidth brings half of it back, and it is a limit.
TEST(Explain, BandwidthThatBindsIsWorthWhatItBinds) {
  SearchProblem problem = distillation(2, 4'000, 3'000);
  problem.machine.kinds[0].rates.stream = cost_models::BytesPerSecond(1e3);
  problem.pins[1].dataParallel = 2;
  Explained e(problem);
  double step = e.result.simulation.stepSeconds;
  const Candidate *twice = e.candidate(kWhatIf, "devices' memory bandwidth");
  EXPECT_LT(twice->stepSeconds, 0.6 * step);
  auto sum = std::find_if(e.explanation.limits.begin(), e.explanation.limits.end(),
                          [](const Limit &limit) { return limit.place == "gradients of student"; });
  ASSERT_NE(sum, e.explanation.limits.end());
  EXPECT_GT(sum->used, 0);
  EXPECT_LT(sum->used, step);
}

TEST(Explain, TransfersThatNoWorkHidesAreALimit) {
  SearchProblem problem = distillation(2, 40'000, 40'000);
  problem.pins[0].devices = std::vector<uint32_t>{0};
  problem.pins[1].devices = std::vector<uint32_t>{1};
  double bytes = problem.machine.kinds[0].rates.channel.value; // A second a message, and a step's work is less.
  problem.model.tensors[0].bytes = {{bytes, {}}};
  Explained e(problem);
  auto edge = std::find_if(e.explanation.limits.begin(), e.explanation.limits.end(),
                           [](const Limit &limit) { return limit.place == "edge teacher -> student"; });
  ASSERT_NE(edge, e.explanation.limits.end());
  double step = e.result.simulation.stepSeconds; // As much as messages take, less by as many as are on the way.
  EXPECT_GE(edge->used, 0.9 * step);
  EXPECT_LE(edge->used, step);
  EXPECT_LE(e.candidate(kWhatIf, "edge teacher -> student")->stepSeconds, 0.6 * step);
}

TEST(Explain, OneMoreDeviceIsUsedOrNot) {
  Explained gains(distillation(2, 80'000, 80'000));
  EXPECT_LT(gains.candidate(kWhatIf, "devices")->stepSeconds, gains.result.simulation.stepSeconds);
  EXPECT_THAT(gains.candidate(kWhatIf, "devices")->reason, HasSubstr("given to "));
  SearchProblem together = distillation(2, 80'000, 80'000);
  together.machine.kinds[0].rates.stream = cost_models::BytesPerSecond(1e12);
  Explained shared(together);
  ASSERT_EQ(shared.result.winner, "all data parallel");
  EXPECT_THAT(shared.candidate(kWhatIf, "devices")->reason, HasSubstr("3 replicas on 0-2"));
  EXPECT_LT(shared.candidate(kWhatIf, "devices")->stepSeconds, shared.result.simulation.stepSeconds);
}

TEST(Explain, PinnedDecisionsSayWhatThePinCosts) {
  SearchProblem problem = distillation(2, 40'000, 40'000);
  problem.machine.kinds[0].rates.stream = cost_models::BytesPerSecond(1e12);
  problem.pins[1].devices = std::vector<uint32_t>{0};
  problem.pins[0].devices = std::vector<uint32_t>{0};
  Explained e(problem);
  const Candidate *devices = e.candidate(kAlternative, "student.devices");
  ASSERT_NE(devices, nullptr);
  EXPECT_LT(devices->stepSeconds, e.result.simulation.stepSeconds);
  EXPECT_THAT(devices->reason, HasSubstr("pinned"));
}

/// Counted, so that it is the same everywhere; and without a budget what needs none is still there.
TEST(Explain, TheBudgetBoundsWhatIsSimulated) {
  Explained rich(distillation(8, 70'000, 20'000)), again(distillation(8, 70'000, 20'000)),
      poor(distillation(8, 70'000, 20'000), {0});
  ASSERT_EQ(rich.explanation.candidates.size(), again.explanation.candidates.size());
  for (size_t i = 0; i < rich.explanation.candidates.size(); ++i)
    EXPECT_EQ(rich.explanation.candidates[i].stepSeconds, again.explanation.candidates[i].stepSeconds);
  EXPECT_EQ(poor.candidate(kAlternative, "student.micro_batch"), nullptr);
  EXPECT_NE(rich.candidate(kAlternative, "student.micro_batch"), nullptr);
  EXPECT_EQ(poor.explanation.limits.size(), rich.explanation.limits.size());
  EXPECT_FALSE(poor.explanation.quantities.empty());
}

} // namespace
} // namespace maestro::planner
