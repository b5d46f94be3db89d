#include "executor/wavefront/trial.h"

namespace maestro::wavefront {

void Trial::prepare(const Problem &problem, const ProblemIndex &index) {
  regrouper.prepare(problem, index);
  traits = Traits();
  for (size_t device = 0; device < index.deviceStations.size(); ++device)
    traits.colocated |= index.deviceStations[device].size() > 1;
  for (const Section &section : problem.sections)
    traits.splits |= section.splitsBackward;
  traits.pace = regrouper.goodPace(problem, index);
  traits.mostPace = regrouper.mostPace;
  traits.shelves = regrouper.hasShelves;
  traits.below = regrouper.hasBelow();
}

void Trial::form(const Problem &problem, const ProblemIndex &index, const Recipe &recipe) {
  regrouper.form(problem, index, recipe, groups);
  arrange(problem, index, regrouper.forwardKey, regrouper.backwardKey);
}

void Trial::arrange(const Problem &problem, const ProblemIndex &index, const std::vector<int64_t> &forwardKey,
                    const std::vector<int64_t> &backwardKey) {
  sequences.sort(index, groups, forwardKey, backwardKey);
  computeTails(problem, index, groups, tails);
}

} // namespace maestro::wavefront
