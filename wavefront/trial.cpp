#include "wavefront/trial.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

/// A micro-batch formed, by its samples, by those that it was compared with for its turn, and by samples sorted anew; a
/// task's precedences, its start, and what arrives there.
constexpr int64_t formedGroup = 142, formedSample = 23, formedChoice = 27, sortedSample = 80;
constexpr int64_t linkedTask = 8, simulatedTask = 40, simulatedArrival = 41;

} // namespace

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

int64_t Trial::formingNs() const {
  return static_cast<int64_t>(groups.list.size()) * formedGroup +
         static_cast<int64_t>(groups.samples.size()) * formedSample +
         static_cast<int64_t>(regrouper.compared) * formedChoice +
         static_cast<int64_t>(regrouper.resorted) * sortedSample;
}

int64_t Trial::arrangingNs() const { return static_cast<int64_t>(groups.taskNs.size()) * linkedTask; }

int64_t Trial::simulatingNs(size_t tasks) const {
  int64_t count = static_cast<int64_t>(tasks), all = std::max<int64_t>(1, static_cast<int64_t>(groups.tasks));
  return count * simulatedTask + static_cast<int64_t>(groups.arrivals) * simulatedArrival * count / all;
}

} // namespace maestro::wavefront
