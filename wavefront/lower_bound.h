// What no schedule of a problem can beat, whatever its micro-batches, replicas and orders.
//
// Costs are polynomials with coefficients of 0 or more over dims that only grow as samples join, so a micro-batch costs
//  - at least what its dearest sample costs alone: hence paths, earliest starts and shortest tails by sample;
//  - in each term with a summed dim at least the sum of its samples' costs: hence the work of a stage over all its
//  stations, padding apart;
//  - in each other term at least the largest sample's, once for each of the fewest micro-batches that the capacities
//  allow.
// Then, for every stage: the stations it uses start no earlier than the smallest earliest starts (different samples
// open different stations), end no later than makespan - the smallest tails, and do all the work in between.
#pragma once

#include "wavefront/problem_index.h"

#include <span>

namespace maestro::wavefront {

/// Keeps its memory.
class LowerBound {
public:
  /// Requires check(problem), and the problem's index.
  int64_t compute(const Problem &problem, const ProblemIndex &index);

private:
  void measureSamples(const Problem &problem, const ProblemIndex &index);
  void measurePaths(const Problem &problem, const ProblemIndex &index);
  void measureWork(const Problem &problem, const ProblemIndex &index);
  int64_t groupWorkPs(const Problem &problem, uint32_t section, const CostTerm &term);
  int64_t minGroups(const Problem &problem, uint32_t section) const;
  int64_t stageBound(const Problem &problem, const ProblemIndex &index, uint32_t stageId);
  int64_t machinesAt(const Problem &problem, uint32_t section, uint32_t stage);
  int64_t pooled(int64_t workNs, size_t machines, size_t samples);
  int64_t devicesBound(const Problem &problem, const ProblemIndex &index);

  std::vector<int64_t> aloneDims;                       ///< sample × dims
  std::vector<uint8_t> active;                          ///< section × sample
  std::vector<int64_t> forwardNs, backwardNs, weightNs; ///< stage id × sample, alone
  std::vector<int64_t> headNs;                          ///< stage id × sample: earliest start
  std::vector<int64_t> tailForwardNs, tailBackwardNs;   ///< stage id × sample: from the task's end to the step's end
  std::vector<int64_t> workNs, firmWorkNs;              ///< By stage id; the second without weight gradients.
  std::vector<int64_t> heads, tails, values;
  std::vector<uint32_t> component; ///< By device.
  std::vector<uint8_t> seen;       ///< By device.
};

/// The same, once.
int64_t lowerBound(const Problem &problem);

} // namespace maestro::wavefront
