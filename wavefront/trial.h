// A problem, prepared for recipes to be tried on: micro-batches formed, orders derived, a list schedule.
#pragma once

#include "wavefront/choices.h"
#include "wavefront/list_schedule.h"
#include "wavefront/regroup.h"

namespace maestro::wavefront {

/// Keeps its memory between problems.
class Trial {
public:
  /// What does not depend on recipes. Requires check(problem); `index` is the problem's.
  void prepare(const Problem &problem, const ProblemIndex &index);
  /// Micro-batches and orders as the recipe has them.
  void form(const Problem &problem, const ProblemIndex &index, const Recipe &recipe);
  /// Orders for the groups as they stand.
  void arrange(const Problem &problem, const ProblemIndex &index, const std::vector<int64_t> &forwardKey,
               const std::vector<int64_t> &backwardKey);
  /// The makespan of what is arranged, or what ListScheduler::run() says instead.
  int64_t run(const Problem &problem, const ProblemIndex &index, Rule rule, int64_t limit) {
    return list.run(problem, index, groups, sequences, tails, rule, limit);
  }

  /// What these take, in nanoseconds of an unhurried core: counted, not clocked, so that it is the same wherever it is
  /// counted.
  int64_t formingNs() const; ///< Of the last form(), arranging apart,
  int64_t arrangingNs() const;
  int64_t simulatingNs() const {
    return simulatingNs(list.log.size());
  }                                         ///< of the last run(), which may have been given up,
  int64_t simulatingNs(size_t tasks) const; ///< or of so many tasks.

  Traits traits; ///< Of the problem; `far` is the caller's.
  Regrouper regrouper;
  Groups groups;
  ListScheduler list;

private:
  Sequences sequences;
  std::vector<int64_t> tails;
};

} // namespace maestro::wavefront
