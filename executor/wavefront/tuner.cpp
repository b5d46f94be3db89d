#include "executor/wavefront/tuner.h"

#include "executor/wavefront/lower_bound.h"
#include "executor/wavefront/trial.h"

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
  Tuner(std::span<const Problem> problems, uint64_t tasks) : budget(tasks) {
    for (const Problem &problem : problems) {
      boundNs += steps.emplace_back(std::make_unique<Step>(problem))->boundNs;
      steps.back()->trial.traits.far = true; // All changes that there are.
    }
  }

  std::optional<Choice> run() {
    const Traits &traits = steps.front()->trial.traits;
    for (size_t i = 0; i < startCount(traits); ++i)
      attempt(start(traits, i));
    if (isNear())
      return std::nullopt;
    for (size_t i = 0; i < changeCount(traits) && goesOn(); ++i)
      attempt(changed(traits, best, i));
    while (goesOn())
      attempt(among(3) == 0 ? changed(traits, best, among(changeCount(traits))) : drawn(traits));
    return bestNs < worst ? std::optional(best) : std::nullopt;
  }

private:
  static constexpr int64_t worst = std::numeric_limits<int64_t>::max();

  bool isNear() const { return bestNs - boundNs < boundNs / 100; }
  bool goesOn() const { return spent < budget && !isNear(); }
  size_t among(size_t count) { return random() % count; }
  int64_t among(std::initializer_list<int64_t> values) { return values.begin()[among(values.size())]; }

  /// The best with every fourth part drawn anew, or all of them.
  Choice drawn(const Traits &traits) {
    Choice choice = best;
    Recipe &recipe = choice.recipe;
    bool all = among(3) == 0;
    auto redraws = [&] { return all || among(4) == 0; };
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
      recipe.lead = among({0, 1, 2, 4});
    if (redraws())
      recipe.shelves = among({0, 4, 16, 64});
    if (redraws())
      recipe.taper = among({0, 1, 2, 4, 8});
    if (redraws())
      recipe.lag = among({0, 1, 2, 4});
    if (redraws())
      choice.rule = static_cast<Rule>(among(static_cast<size_t>(Rule::ZeroBubble) + 1));
    return within(traits, choice);
  }

  /// Keeps the choice if all steps together end sooner with it.
  void attempt(const Choice &choice) {
    int64_t total = 0, left = boundNs; // What the steps so far took, and the others must take.
    for (const std::unique_ptr<Step> &step : steps) {
      Choice own = within(step->trial.traits, choice);
      left -= step->boundNs;
      step->trial.form(step->problem, step->index, own.recipe);
      int64_t ns = step->trial.run(step->problem, step->index, own.rule, bestNs == worst ? worst : bestNs - total - left);
      spent += step->trial.list.log.size() + step->problem.sampleCount() * step->problem.sections.size(); // Forming them costs as much.
      if (ns < 0)
        return;
      total += ns;
    }
    if (total < bestNs) {
      bestNs = total;
      best = choice;
    }
  }

  std::vector<std::unique_ptr<Step>> steps;
  std::minstd_rand random;
  Choice best;
  int64_t bestNs = worst, boundNs = 0;
  uint64_t spent = 0, budget;
};

} // namespace

std::optional<Choice> tune(std::span<const Problem> steps, uint64_t tasks) { return Tuner(steps, tasks).run(); }

} // namespace maestro::wavefront
