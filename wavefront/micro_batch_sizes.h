// How many micro-batches each section forms and how long each may take, and how they may overlap: what slots and rings
// allow.
#pragma once

#include "wavefront/choice.h"
#include "wavefront/sample_work.h"

namespace maestro::wavefront {

/// Keeps its memory.
class MicroBatchSizes {
public:
  /// What holds for any choice.
  void prepare(const Problem &problem, const ProblemIndex &index, uint32_t trunk);
  void choose(const Problem &problem, const ProblemIndex &index, const SampleWork &work, const Choice &choice);
  /// Micro-batches a replica that balance constants, which grow with their number, against filling and draining the
  /// longest chain of sections, which grow with their size.
  int64_t theoryPerReplica(const Problem &problem, const ProblemIndex &index, const SampleWork &work);
  /// The longest path along edges, of micro-batches as choose() has them.
  int64_t longestChainNs(const ProblemIndex &index);

  std::vector<int64_t> groupNs;  ///< By section: how long a micro-batch may take, all stages and kinds together.
  std::vector<int64_t> maxApart; ///< By section: trunk micro-batches of a replica that one of its may reach across.

private:
  void limitBySlots(const Problem &problem, const ProblemIndex &index, int64_t headroom);
  void limit(uint32_t section, int64_t count);
  int64_t longestChain(const ProblemIndex &index);

  std::vector<int64_t> counts;   ///< By section: micro-batches aimed at, in 256ths.
  std::vector<int64_t> inFlight; ///< By section: micro-batches on their way below a replica's first stage, in 256ths.
  std::vector<int64_t> chain, reach;
};

} // namespace maestro::wavefront
