// How many micro-batches are in flight on a stage, and how many slots the rings between stages have. The emitter
// reserves memory by these rules and the simulator schedules by them, so that both speak of the same plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maestro::cost_models {

/// A pipeline stage, or a section that is not cut.
struct StageFlow {
  uint32_t section = 0;
  int64_t microBatch = 1; ///< Most samples of a micro-batch.
};

/// A tensor from one stage to a later one.
struct EdgeFlow {
  uint32_t producer = 0, consumer = 0; ///< Indices of stages, producers before consumers.
  bool gradient = false;
};

struct InFlight {
  std::vector<uint32_t> slots;                ///< By stage.
  std::vector<uint32_t> depth, gradientDepth; ///< By edge: of the consumer's ring, and of the producer's for gradients.
};

/// A stage at the end of the gradients' way has one micro-batch in flight, each stage before it one more, and as many
/// as its consumer's micro-batch is larger. A ring holds what one task of its sender fills, and one more.
InFlight microBatchesInFlight(std::span<const StageFlow> stages, std::span<const EdgeFlow> edges);

} // namespace maestro::cost_models
