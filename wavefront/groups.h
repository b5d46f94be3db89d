// Micro-batches while the scheduler works on them: their samples, who feeds whom, what they cost.
#pragma once

#include "wavefront/problem_index.h"
#include "wavefront/schedule.h"

namespace maestro::wavefront {

/// All micro-batches of all sections, section by section. Filled with begin / open / add, then finish().
struct Groups {
  std::vector<uint32_t> samples;
  std::vector<int64_t> dims;
  std::vector<MicroBatch> list;
  std::vector<uint32_t> firstOfSection; ///< One more at the end.
  std::vector<uint32_t> groupOf;        ///< section × sample; none where it takes no part.
  std::vector<Lists> consumers;         ///< By pair of sections: consumer groups of each producer group, and
  std::vector<Lists> producers;         ///< producer groups of each consumer group.

  std::vector<uint32_t> firstTask; ///< By group; one more at the end. A task is firstTask + stage * 3 + kind.
  std::vector<int64_t> taskNs;     ///< By task.
  std::vector<size_t> firstTransfer,
      firstGradientTransfer; ///< By edge, into transferNs, by group of the sending section.
  std::vector<int64_t> transferNs;
  std::vector<int64_t> workNs;    ///< By group: all its tasks.
  size_t tasks = 0, arrivals = 0; ///< All, and what arrives at them along edges, both ways: what simulating them costs.

  std::vector<uint8_t> cuts; ///< groupInBlocks's own, kept for its memory.
  std::vector<int64_t> blockDims, blockSamples;

  void begin(const Problem &problem);
  void beginSection(const Problem &problem);
  /// Starts the current section's next micro-batch.
  void open(const Problem &problem);
  bool fits(const Problem &problem, uint32_t sample);
  void add(const Problem &problem, uint32_t sample);
  /// Relations and costs, once all sections are filled.
  void finish(const Problem &problem, const ProblemIndex &index);

  uint32_t count(uint32_t section) const { return firstOfSection[section + 1] - firstOfSection[section]; }
  std::span<const uint32_t> samplesOf(uint32_t group) const {
    return {samples.data() + list[group].firstSample, list[group].samples};
  }
  uint32_t task(uint32_t group, uint32_t stage, TaskKind kind) const {
    return firstTask[group] + stage * 3 + static_cast<uint32_t>(kind);
  }
  int64_t transfer(uint32_t edge, uint32_t indexInSection) const {
    return transferNs[firstTransfer[edge] + indexInSection];
  }
  int64_t gradientTransfer(uint32_t edge, uint32_t indexInSection) const {
    return transferNs[firstGradientTransfer[edge] + indexInSection];
  }

private:
  void relate(const Problem &problem, const ProblemIndex &index);
  void evaluateCosts(const Problem &problem, const ProblemIndex &index);
  uint32_t section = 0;
  std::vector<uint32_t> stamp;
  std::vector<int64_t> joined;
};

} // namespace maestro::wavefront
