#include "wavefront/tuner.h"

#include "wavefront/lower_bound.h"
#include "wavefront/trial.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace maestro::wavefront {
namespace {

/// One step, prepared.
struct Step {
  explicit Step(const Problem &problem) : problem(problem) {
    index.build(problem);
    boundNs = LowerBound().compute(problem, index);
    trial.prepare(problem, index);
  }

  const Problem &problem;
  ProblemIndex index;
  Trial trial;
  int64_t boundNs = 0;
};

class Tuner {
public:
  Tuner(std::span<const Problem> problems, int64_t budgetNs, int64_t mostTrials)
      : budget(budgetNs), mostTrials(mostTrials) {
    for (const Problem &problem : problems) {
      steps.emplace_back(std::make_unique<Step>(problem))->trial.traits.far = true; // All changes that there are.
    }
    searched = (steps.size() + 1) / 2;
    for (size_t i = 0; i < searched; ++i)
      boundNs += steps[i]->boundNs;
  }

  std::vector<Choice> run() {
    const Traits &traits = steps.front()->trial.traits;
    for (const Choice &hint : steps.front()->problem.hints)
      attempt(hint);
    for (size_t i = 0; i < startCount(traits); ++i)
      attempt(start(traits, i));
    if (isNear())
      return {};
    for (size_t i = 0; i < changeCount(traits) && goesOn(); ++i)
      attempt(changed(traits, best(), i));
    while (goesOn())
      attempt(among(3) == 0 ? changed(traits, best(), among(changeCount(traits))) : drawn(traits));
    validate();
    return several();
  }

private:
  /// With which all steps were simulated.
  struct Tried {
    Choice choice;
    int64_t totalNs = 0;
    std::vector<int64_t> stepNs;
  };
  static constexpr size_t mostKept = 64;
  static constexpr int64_t fewestValidated = 3,
                           mostValidated = 16; ///< Few where a simulation takes long beside the budget.

  /// None is kept where all were stuck.
  Choice best() const { return kept.empty() ? Choice() : kept.front().choice; }
  bool isNear() const { return !kept.empty() && kept.front().totalNs - boundNs < boundNs / 100; }
  bool isFar() const { return kept.empty() || kept.front().totalNs - boundNs > boundNs / 10; }
  bool goesOn() const {
    int64_t times = isFar() ? 3 : 1;
    return spent < times * budget && trials < times * mostTrials && !isNear();
  }
  size_t among(size_t count) { return random() % count; }
  int64_t among(std::initializer_list<int64_t> values) { return values.begin()[among(values.size())]; }

  /// One of the best four, sooner the better ones, with every fifth part drawn anew, or all of them.
  Choice drawn(const Traits &traits) {
    size_t few = std::min<size_t>(kept.size(), 4);
    Choice choice = kept.empty() ? Choice() : kept[std::min(among(few), among(few))].choice;
    Recipe &recipe = choice.recipe;
    bool all = among(6) == 0;
    size_t one = among(2) == 0 ? 5 : 10; // Of so many parts.
    auto redraws = [&] { return all || among(one) == 0; };
    if (redraws())
      recipe.pace = traits.pace * among({1, 2, 3, 4, 6, 8, 12, 16, 24, 32}) / 8;
    if (redraws())
      recipe.slack = among({1, 2, 4, 8});
    if (redraws())
      recipe.bands = among({1, 2, 4, 8, 16});
    if (redraws())
      recipe.slope = among(3) == 0;
    if (redraws())
      recipe.pools = among(2) == 0;
    if (redraws())
      recipe.ends = among({0, 1, 2, 4});
    if (redraws())
      recipe.alike = among(2) == 0;
    if (redraws())
      recipe.run = among({1, 2, 4, 8});
    if (redraws())
      recipe.lead = among({0, 1, 2, 3, 4, 5, 6, 8});
    if (redraws())
      recipe.shelves = among({0, 4, 16, 64});
    if (redraws())
      recipe.taper = among({0, 1, 2, 4, 8});
    if (redraws())
      recipe.lag = among({0, 1, 2, 4});
    if (redraws())
      recipe.peak = among({2, 4, 6, 8, 8, 8, 10, 12, 14, 15});
    if (redraws())
      recipe.waves = among({1, 1, 1, 2, 3, 4, 6, 8});
    if (redraws())
      recipe.wait = among({0, 0, 1, 2, 3, 4});
    if (redraws())
      recipe.least = among({4, 8, 16, 16});
    if (redraws())
      recipe.frozen = among({1, 1, 2, 4, 8});
    if (redraws())
      recipe.apart = among({0, 1, 2, 16, 16});
    if (redraws())
      recipe.ways = among({0, 0, 0, 1, 2, 4, 8});
    if (redraws())
      recipe.smooth = among({0, 1, 4, 4, 16, 64, 256});
    if (redraws())
      recipe.full = among({0, 0, 1, 2, 2, 2});
    if (redraws())
      recipe.blunt = among({1, 1, 2, 3, 4, 256});
    if (redraws())
      recipe.level = among(2) == 0;
    if (redraws())
      recipe.fall = among({2, 4, 4, 8, 16});
    if (redraws())
      choice.rule = static_cast<Rule>(among(static_cast<size_t>(Rule::ZeroBubble) + 1));
    return within(traits, choice);
  }

  /// Keeps the choice, if it is among the best. Given up as soon as the steps so far take a 32nd longer than with the
  /// best.
  void attempt(const Choice &choice) {
    ++trials;
    Tried tried{choice, 0, {}};
    int64_t bestSoFar = 0;
    for (size_t i = 0; i < searched; ++i) {
      int64_t most = std::numeric_limits<int64_t>::max();
      if (!kept.empty()) {
        bestSoFar += kept.front().stepNs[i];
        most = bestSoFar + bestSoFar / 32 - tried.totalNs;
      }
      int64_t ns = simulate(*steps[i], choice, most);
      if (ns < 0)
        return;
      if (i == 0 && ns < firstNs) {
        firstNs = ns;
        bestOfFirst = choice;
      }
      tried.totalNs += ns;
      tried.stepNs.push_back(ns);
    }
    auto at =
        std::find_if(kept.begin(), kept.end(), [&](const Tried &other) { return other.totalNs >= tried.totalNs; });
    if (at != kept.end() && at->stepNs == tried.stepNs)
      return; // The same schedules.
    kept.insert(at, std::move(tried));
    if (kept.size() > mostKept)
      kept.pop_back();
  }

  int64_t simulate(Step &step, const Choice &choice, int64_t most) {
    Choice own = within(step.trial.traits, choice);
    step.trial.form(step.problem, step.index, own.recipe);
    int64_t ns = step.trial.run(step.problem, step.index, own.rule, most);
    ++simulations;
    spent += step.trial.formingNs() + step.trial.arrangingNs() + step.trial.simulatingNs();
    return ns;
  }

  /// What is best for some steps is so by luck, too: the best few are tried on the others, for about a quarter of the
  /// budget.
  void validate() {
    int64_t each = spent / std::max<int64_t>(1, simulations) * static_cast<int64_t>(steps.size() - searched) + 1;
    kept.resize(std::min<size_t>(
        kept.size(), static_cast<size_t>(std::clamp<int64_t>(budget / 4 / each, fewestValidated, mostValidated))));
    for (Tried &tried : kept)
      for (size_t i = searched; i < steps.size(); ++i) {
        int64_t ns = simulate(*steps[i], tried.choice, std::numeric_limits<int64_t>::max());
        tried.stepNs.push_back(ns < 0 ? 2 * steps[i]->boundNs : ns); // Stuck.
        tried.totalNs += tried.stepNs.back();
      }
    std::sort(kept.begin(), kept.end(), [](const Tried &a, const Tried &b) { return a.totalNs < b.totalNs; });
  }

  /// The best, then always the one with which the steps, each with what is best for it, end soonest; then the best of
  /// the others, and that of the first step.
  std::vector<Choice> several() const {
    std::vector<Choice> chosen;
    std::vector<int64_t> least(kept.empty() ? 0 : kept.front().stepNs.size(), std::numeric_limits<int64_t>::max());
    auto with = [&](const Tried &tried) {
      int64_t total = 0;
      for (size_t i = 0; i < least.size(); ++i)
        total += std::min(least[i], tried.stepNs[i]);
      return total;
    };
    auto isChosen = [&](const Tried &tried) {
      return std::find(chosen.begin(), chosen.end(), tried.choice) != chosen.end();
    };
    while (chosen.size() < std::min(kMostHints, kept.size())) {
      auto next =
          std::min_element(kept.begin(), kept.end(), [&](const Tried &a, const Tried &b) { return with(a) < with(b); });
      if (isChosen(*next)) // None helps these steps; others may be helped by the best that is left.
        next = std::find_if_not(kept.begin(), kept.end(), isChosen);
      if (next == kept.end())
        break;
      chosen.push_back(next->choice);
      for (size_t i = 0; i < least.size(); ++i)
        least[i] = std::min(least[i], next->stepNs[i]);
    }
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), bestOfFirst) == chosen.end()) {
      chosen.resize(std::min(chosen.size(), kMostHints - 1));
      chosen.push_back(bestOfFirst);
    }
    return chosen;
  }

  std::vector<std::unique_ptr<Step>> steps;
  std::minstd_rand random;
  size_t searched = 0;                                   ///< Of the steps: so many, the others tell luck from merit.
  std::vector<Tried> kept;                               ///< The best first.
  Choice bestOfFirst;                                    ///< With which the first step ends soonest,
  int64_t firstNs = std::numeric_limits<int64_t>::max(); ///< and when.
  int64_t boundNs = 0;
  int64_t spent = 0, simulations = 0, budget; ///< As a Trial counts.
  int64_t trials = 0, mostTrials;
};

} // namespace

std::vector<Choice> tune(std::span<const Problem> steps, int64_t budgetNs, int64_t mostTrials) {
  return Tuner(steps, budgetNs, mostTrials).run();
}

} // namespace maestro::wavefront
