// How soon a replica of several stages can do its work forward and backward, whatever the sizes of its micro-batches:
// large ones fill and drain the pipeline slowly, small ones cost constants, and sizes can only grow as fast as what
// came before lasts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maestro::wavefront {

/// Times are those of one stage, at most what each of them takes.
struct PipelineFacts {
  static constexpr int64_t wholePart = 1 << 16;

  int64_t stages = 2;
  int64_t workNs = 0; ///< What the replica's samples make a stage work, constants of micro-batches apart,
  int64_t mostNs = 0; ///< and how much of that is in one micro-batch at most.
  int64_t forwardPart = 0, backwardPart = 0; ///< Of any micro-batch's work at least, of wholePart.
  int64_t forwardNs = 0, backwardNs = 0;     ///< A micro-batch's constants.
  int64_t aroundNs = 0;                      ///< Besides: before, after and between the stages.
  int64_t mostBatches = 0;
  bool drains = true; ///< Backward tasks pass the stages, and nothing is left to do behind them.
};

/// Keeps its memory.
class PipelineFlow {
public:
  /// What the replica needs at least if that is more than `knownNs`, otherwise 0.
  int64_t bound(const PipelineFacts &facts, int64_t knownNs);

private:
  static constexpr size_t cells = 24;
  bool fits(int64_t ns);
  bool fits(int64_t idleNs, size_t batches);
  void grow(size_t cell, int64_t idleNs, size_t batches);
  bool holds(const std::vector<int64_t> &fill, const std::vector<int64_t> &drain, size_t m) const;
  void grow(int64_t idleNs, int64_t part, int64_t lastsNs, std::vector<int64_t> &done) const;

  PipelineFacts facts;
  std::vector<int64_t> filled[cells + 1], drained[cells + 1]; ///< By micro-batches: the most work in so many.
};

} // namespace maestro::wavefront
