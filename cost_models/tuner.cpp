#include "cost_models/tuner.h"

#include "wavefront/lower_bound.h"
#include "wavefront/trial.h"

#include <algorithm>
#include <limits>
#include <memory>

namespace maestro::cost_models {

using namespace wavefront;

namespace {

/// The best choices that are kept while searching; more are hardly ever among the hints.
constexpr size_t kMaxKept = 64;
/// Choices are drawn near the best few.
constexpr size_t kParents = 4;
/// How many are tried on the steps that were not searched on: fewer where a simulation takes long beside the budget.
constexpr int64_t kMinValidated = 3, kMaxValidated = 16;
/// A choice is given up when its steps take a 32nd longer than the best's.
constexpr int64_t kHopeless = 32;
constexpr int64_t kNearBound = 100;   ///< A percent above the bounds there is nothing left to tune.
constexpr int64_t kFarFromBound = 10; ///< A tenth above them it is worth
constexpr int64_t kTimesWhenFar = 3;  ///< three times the effort.
constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

/// One step, prepared.
struct Step {
  Step(const Problem &problem, uint64_t fixedParts) {
    index.build(problem);
    boundNs = LowerBound().compute(problem, index);
    trial.prepare(problem, index, fixedParts);
  }
  ProblemIndex index;
  Trial trial;
  int64_t boundNs = 0;
};

/// A choice with which all steps were simulated.
struct Tried {
  Choice choice;
  int64_t totalNs = 0;
  std::vector<int64_t> stepNs;
};

struct TuningState {
  TuningLimits limits;
  std::vector<std::unique_ptr<Step>> steps;
  size_t searched = 0;          ///< Of the steps, the first so many.
  int64_t boundNs = 0;          ///< Of these.
  std::vector<Tried> kept;      ///< The best first.
  Choice bestOfFirst;           ///< With which the first step ends soonest,
  int64_t firstNs = kUnlimited; ///< and when.
  int64_t spentNs = 0, simulations = 0, trials = 0;

  const Traits &traits() const { return steps.front()->trial.traits; }
  bool isAbove(int64_t part) const { return kept.empty() || kept.front().totalNs - boundNs > boundNs / part; }
  bool goesOn() const {
    int64_t times = isAbove(kFarFromBound) ? kTimesWhenFar : 1;
    return isAbove(kNearBound) && spentNs < times * limits.budgetNs;
  }
};

int64_t simulate(TuningState &tuning, Step &step, const Choice &choice, int64_t limitNs) {
  int64_t before = step.trial.spentNs;
  Choice own = within(step.trial.traits, choice);
  step.trial.form(own);
  int64_t ns = step.trial.run(own.rule, limitNs);
  ++tuning.simulations;
  tuning.spentNs += step.trial.spentNs - before;
  return ns;
}

/// Simulates the searched steps with the choice, and keeps it if it is among the best.
void attempt(TuningState &tuning, const Choice &choice) {
  ++tuning.trials;
  std::vector<Tried> &kept = tuning.kept;
  Tried tried{choice, 0, {}};
  int64_t bestSoFar = 0;
  for (size_t i = 0; i < tuning.searched; ++i) {
    int64_t limitNs = kUnlimited;
    if (!kept.empty()) {
      bestSoFar += kept.front().stepNs[i];
      limitNs = bestSoFar + bestSoFar / kHopeless - tried.totalNs;
    }
    int64_t ns = simulate(tuning, *tuning.steps[i], choice, limitNs);
    if (ns < 0)
      return;
    if (i == 0 && ns < tuning.firstNs) {
      tuning.firstNs = ns;
      tuning.bestOfFirst = choice;
    }
    tried.totalNs += ns;
    tried.stepNs.push_back(ns);
  }
  auto at = std::find_if(kept.begin(), kept.end(), [&](const Tried &other) { return other.totalNs >= tried.totalNs; });
  if (at != kept.end() && at->stepNs == tried.stepNs)
    return; // The same schedules.
  kept.insert(at, std::move(tried));
  if (kept.size() > kMaxKept)
    kept.pop_back();
}

/// One of the best few, sooner the better ones, with one part drawn anew, with every tenth or fifth, too, or with all.
Choice next(const TuningState &tuning, uint64_t counter) {
  constexpr uint64_t kEvery[] = {0, 0, 10, 10, 10, 5, 5, 1};
  uint64_t random = randomAt(counter), count = choiceParts().size(), parts = uint64_t{1} << random % count;
  uint64_t every = kEvery[random >> 61], few = std::min(tuning.kept.size(), kParents);
  for (size_t i = 0; every > 0 && i < count; ++i)
    if (randomAt(~(counter * count + i)) % every == 0)
      parts |= uint64_t{1} << i;
  Choice from = few == 0 ? Choice() : tuning.kept[std::min(random / 64 % few, random / 1024 % few)].choice;
  return redrawn(tuning.traits(), from, parts, counter);
}

void search(TuningState &tuning, std::span<const Choice> hints) {
  for (const Choice &hint : hints)
    attempt(tuning, hint);
  for (size_t i = 0; i < startCount(tuning.traits()); ++i)
    attempt(tuning, start(tuning.traits(), i));
  for (uint64_t counter = 0; tuning.goesOn(); ++counter)
    attempt(tuning, next(tuning, counter));
}

/// What is best for some steps is so by luck, too: tries the best few on the others, for about a quarter of the budget.
void validate(TuningState &tuning) {
  auto others = static_cast<int64_t>(tuning.steps.size() - tuning.searched);
  int64_t each = tuning.spentNs / std::max<int64_t>(1, tuning.simulations) * others + 1;
  int64_t few = std::clamp<int64_t>(tuning.limits.budgetNs / 4 / each, kMinValidated, kMaxValidated);
  tuning.kept.resize(std::min(tuning.kept.size(), static_cast<size_t>(few)));
  for (Tried &tried : tuning.kept)
    for (size_t i = tuning.searched; i < tuning.steps.size(); ++i) {
      int64_t ns = simulate(tuning, *tuning.steps[i], tried.choice, kUnlimited);
      tried.stepNs.push_back(ns < 0 ? 2 * tuning.steps[i]->boundNs : ns); // Stuck.
      tried.totalNs += tried.stepNs.back();
    }
  std::sort(tuning.kept.begin(), tuning.kept.end(),
            [](const Tried &a, const Tried &b) { return a.totalNs < b.totalNs; });
}

/// The best, then always the one with which the steps, each with what is best for it, end soonest; where none helps
/// these steps, the best of the others, which may help other steps; and that of the first step.
std::vector<Choice> several(const TuningState &tuning) {
  std::vector<Choice> chosen;
  std::vector<int64_t> least(tuning.kept.empty() ? 0 : tuning.kept.front().stepNs.size(), kUnlimited);
  auto with = [&](const Tried &tried) {
    int64_t total = 0;
    for (size_t i = 0; i < least.size(); ++i)
      total += std::min(least[i], tried.stepNs[i]);
    return total;
  };
  auto isChosen = [&](const Tried &tried) {
    return std::find(chosen.begin(), chosen.end(), tried.choice) != chosen.end();
  };
  while (chosen.size() < std::min(kMaxHints, tuning.kept.size())) {
    auto best = std::min_element(tuning.kept.begin(), tuning.kept.end(),
                                 [&](const Tried &a, const Tried &b) { return with(a) < with(b); });
    if (isChosen(*best))
      best = std::find_if_not(tuning.kept.begin(), tuning.kept.end(), isChosen);
    if (best == tuning.kept.end())
      break;
    chosen.push_back(best->choice);
    for (size_t i = 0; i < least.size(); ++i)
      least[i] = std::min(least[i], best->stepNs[i]);
  }
  if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), tuning.bestOfFirst) == chosen.end()) {
    chosen.resize(std::min(chosen.size(), kMaxHints - 1));
    chosen.push_back(tuning.bestOfFirst);
  }
  return chosen;
}

} // namespace

std::vector<Choice> tune(std::span<const Problem> steps, const TuningLimits &limits) {
  TuningState tuning;
  tuning.limits = limits;
  tuning.searched = (steps.size() + 1) / 2;
  for (const Problem &problem : steps)
    tuning.steps.push_back(std::make_unique<Step>(problem, limits.fixedParts));
  for (size_t i = 0; i < tuning.searched; ++i)
    tuning.boundNs += tuning.steps[i]->boundNs;
  size_t starts = steps.front().hints.size() + startCount(tuning.traits());
  search(tuning, steps.front().hints);
  if (!tuning.isAbove(kNearBound) && static_cast<size_t>(tuning.trials) <= starts)
    return {};
  validate(tuning);
  return several(tuning);
}

} // namespace maestro::cost_models
