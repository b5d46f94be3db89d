// The order in which each replica's stations take its micro-batches, and how far each task is from the step's end: what
// list scheduling starts from.
#pragma once

#include "wavefront/groups.h"

namespace maestro::wavefront {

/// In which order each replica's stations take its micro-batches; the same at all stages.
struct Sequences {
  Lists forward, backward;                                 ///< By replica (ProblemIndex.replica): groups.
  std::vector<uint32_t> forwardPosition, backwardPosition; ///< By group.

  /// By the groups' replicas, then by rising key (by group), then by number.
  void sort(const ProblemIndex &index, const Groups &groups, const std::vector<int64_t> &forwardKey,
            const std::vector<int64_t> &backwardKey);

private:
  void sortOne(const ProblemIndex &index, const Groups &groups, const std::vector<int64_t> &key, Lists &lists,
               std::vector<uint32_t> &position);
};

/// By task: the longest path from its start to the step's end, devices and rings apart.
void computeTails(const Problem &problem, const ProblemIndex &index, const Groups &groups, std::vector<int64_t> &tails);

} // namespace maestro::wavefront
