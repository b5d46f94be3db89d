#include "wavefront/trial.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

// Timed on one unhurried core over bench/wavefront's problems; its nanoseconds a task show whether they still hold.
constexpr int64_t kReadSampleNs = 200;     ///< Reading a sample,
constexpr int64_t kReadPlaceNs = 75;       ///< and more for each stage of a section.
constexpr int64_t kFormGroupNs = 142;      ///< Forming a micro-batch,
constexpr int64_t kFormSampleNs = 23;      ///< each of its samples,
constexpr int64_t kCompareNs = 27;         ///< and each micro-batch that was compared with it.
constexpr int64_t kSortSampleNs = 80;      ///< Sorting a sample into its class.
constexpr int64_t kArrangeTaskNs = 8;      ///< A task's way to the step's end.
constexpr int64_t kSimulateTaskNs = 40;    ///< A task's start,
constexpr int64_t kSimulateArrivalNs = 41; ///< and each input or gradient that arrives at it.

int64_t times(size_t count, int64_t ns) { return static_cast<int64_t>(count) * ns; }

} // namespace

void Trial::prepare(const Problem &ofStep, const ProblemIndex &itsIndex, uint64_t fixedParts) {
  problem = &ofStep;
  index = &itsIndex;
  isFormed = false;
  regrouper.prepare(*problem, *index);
  traits = {.fixedParts = fixedParts};
  for (size_t device = 0; device < index->deviceStations.size(); ++device)
    traits.isColocated |= index->deviceStations[device].size() > 1;
  for (const Section &section : problem->sections)
    traits.splitsAlike |= section.splitsBackward && regrouper.areAlike();
  traits.theoryPerReplica = regrouper.theoryPerReplica(*problem, *index);
  traits.maxPerReplica = regrouper.maxPerReplica();
  spentNs = times(problem->sampleCount(), kReadSampleNs + times(index->sectionOfStage.size(), kReadPlaceNs));
}

void Trial::form(const Choice &choice) {
  Choice wanted = choice;
  wanted.rule = formed.rule;
  if (isFormed && wanted == formed)
    return;
  formed = wanted;
  isFormed = true;
  regrouper.form(*problem, *index, choice, groups);
  spentNs += times(groups.list.size(), kFormGroupNs) + times(groups.samples.size(), kFormSampleNs) +
             times(regrouper.compared, kCompareNs) + times(regrouper.sorted, kSortSampleNs);
  arrange(regrouper.forwardKey, regrouper.backwardKey);
  isFormed = true;
}

void Trial::arrange(const std::vector<int64_t> &forwardKey, const std::vector<int64_t> &backwardKey) {
  isFormed = false;
  sequences.sort(*index, groups, forwardKey, backwardKey);
  computeTails(*problem, *index, groups, tails);
  spentNs += times(groups.taskNs.size(), kArrangeTaskNs);
}

int64_t Trial::run(Rule rule, int64_t limitNs) {
  int64_t makespan = list.run(*problem, *index, groups, sequences, tails, rule, limitNs);
  size_t started = list.log.size(), all = std::max<size_t>(1, groups.tasks); // It may have been given up.
  spentNs += times(started, kSimulateTaskNs) + times(groups.arrivals * started / all, kSimulateArrivalNs);
  return makespan;
}

} // namespace maestro::wavefront
