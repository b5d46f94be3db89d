// How many micro-batches are in flight on a stage, and how many slots the rings between stages have. The emitter
// reserves memory by these rules and the simulator schedules by them, so that both speak of the same plan.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maestro::cost_models {

/// No more micro-batches are in flight: few replicas of an encoder hold what many of a language model have on the way
/// (32 were too few).
inline constexpr uint32_t kMostSlots = 128;
/// More micro-batches than the stage after it: one that a stage works on, one that waits between them.
inline constexpr uint32_t kOwnSlots = 2;
/// What may wait in a ring beside what one task of each sender fills: between stages, and between sections, whose
/// micro-batches differ and whose replicas run apart.
inline constexpr uint32_t kWaitingForStage = 4, kWaitingForSection = 8;

/// A pipeline stage, or a section that is not cut.
struct StageFlow {
  uint32_t section = 0;
  int64_t microBatch = 1; ///< Most samples of a micro-batch.
  uint32_t replicas = 1;
  uint32_t more = 0;   ///< Slots of its rings, and where gradients pass places, beside the usual ones.
  double presence = 1; ///< Of all samples, those that take part in the section.
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

/// Of steps of any number of samples.
inline constexpr int64_t kAnySamples = INT64_MAX;

/// Of the samples in so many micro-batches at each of the consumer's replicas, those that came from the producer: of a
/// step's `stepSamples` that are present there at most. A stretch of samples may have more; they wait then. All of one
/// micro-batch at each replica, since it may be of such alone.
int64_t samplesFrom(const StageFlow &producer, const StageFlow &consumer, uint32_t microBatches, int64_t stepSamples);

/// A stage at the end of the gradients' way has one micro-batch in flight: its backward follows its forward. Each stage
/// before it has two more, one that it works on and one that waits (as ZB-H2 has: Qi et al., arXiv 2401.10241); a
/// section before another as many as hold those of its samples that the other's replicas hold or have waiting, and two
/// of its own. A ring holds what one task of each sender fills, or what the receiver holds, and 4 more between stages,
/// 8 more between sections. Nobody holds or has waiting more than the `stepSamples` of a step.
///
/// That is usual; a section may have some more of all of them where memory is left (`more`).
///
/// Why not 1F1B's one more and rings of one task and one more: they suffice where all micro-batches take the same time.
/// Those of real samples do not, and whoever stalls stalls its neighbours. Mean of makespan / bound over 180 of
/// bench/wavefront's problems, measured once: 1F1B's slots, and rings of one task and one more, 1.23; with replicas
/// counted, 1.16; with two slots more a stage, 1.10; with rings that hold three more, 1.065; from there on a percent or
/// less. A ring's slot is one activation, small beside the dozens of a stage's slot.
InFlight microBatchesInFlight(std::span<const StageFlow> stages, std::span<const EdgeFlow> edges,
                              int64_t stepSamples = kAnySamples);

} // namespace maestro::cost_models
