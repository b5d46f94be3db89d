// A problem, prepared for choices to be tried on: micro-batches formed, orders derived, a list schedule.
#pragma once

#include "wavefront/choice.h"
#include "wavefront/list_schedule.h"
#include "wavefront/regroup.h"

namespace maestro::wavefront {

/// Keeps its memory between problems.
class Trial {
public:
  /// What does not depend on choices. Requires check(problem); `index` is the problem's, and both must outlive the
  /// trials. Parts of choices with a bit in `fixedParts` keep their defaults.
  void prepare(const Problem &problem, const ProblemIndex &index, uint64_t fixedParts = 0);
  /// Micro-batches and orders as the choice has them. Nothing to do where only the rule is another one.
  void form(const Choice &choice);
  /// Orders for groups that others formed.
  void arrange(const std::vector<int64_t> &forwardKey, const std::vector<int64_t> &backwardKey);
  /// The makespan of what is arranged, or what ListScheduler::run() says instead.
  int64_t run(Rule rule, int64_t limitNs);

  /// What all this took since prepare(), in nanoseconds of an unhurried core: counted, not clocked, so that it is the
  /// same wherever it is counted.
  int64_t spentNs = 0;
  Traits traits;
  Regrouper regrouper;
  Groups groups;
  ListScheduler list;

private:
  const Problem *problem = nullptr;
  const ProblemIndex *index = nullptr;
  Choice formed;
  bool isFormed = false;
  Sequences sequences;
  std::vector<int64_t> tails;
};

} // namespace maestro::wavefront
