#include "cost_models/in_flight.h"

#include <algorithm>
#include <cmath>

namespace maestro::cost_models {
namespace {

/// Micro-batches at each replica that hold so many samples.
uint32_t microBatchesOf(const StageFlow &stage, int64_t samples) {
  int64_t each = stage.microBatch * stage.replicas;
  return static_cast<uint32_t>(std::min<int64_t>((samples + each - 1) / each, UINT32_MAX / 2));
}

uint32_t wantedSlots(const StageFlow &producer, const StageFlow &consumer, uint32_t consumerSlots,
                     int64_t stepSamples) {
  if (producer.section == consumer.section)
    return consumerSlots + kOwnSlots;
  return microBatchesOf(producer,
                        samplesFrom(producer, consumer, consumerSlots + kWaitingForSection / 2, stepSamples)) +
         kOwnSlots;
}

/// Slots of a ring at a replica of `receiver` that one task of each sender fills, and those that may wait.
uint32_t ringSlots(const StageFlow &receiver, StageFlow sender, uint32_t held) {
  if (receiver.section == sender.section)
    return std::max(1u, held) + kWaitingForStage;
  sender.replicas = std::max(sender.replicas, receiver.replicas); // All to one, where there are fewer.
  return std::max(microBatchesOf(receiver, sender.microBatch * sender.replicas), held) + kWaitingForSection;
}

} // namespace

int64_t samplesFrom(const StageFlow &producer, const StageFlow &consumer, uint32_t microBatches, int64_t stepSamples) {
  int64_t each = consumer.microBatch * consumer.replicas, samples = std::min(microBatches * each, stepSamples);
  double part = std::min(1.0, producer.presence / consumer.presence);
  return part < 1 ? std::max(std::min(each, stepSamples),
                             static_cast<int64_t>(std::ceil(static_cast<double>(samples) * part)))
                  : samples;
}

InFlight microBatchesInFlight(std::span<const StageFlow> stages, std::span<const EdgeFlow> edges, int64_t stepSamples) {
  const uint32_t most =
      static_cast<uint32_t>(std::min<int64_t>(kMostSlots, stepSamples)); // Each has a sample at least.
  InFlight result;
  result.slots.assign(stages.size(), 1);
  for (uint32_t s = static_cast<uint32_t>(stages.size()); s-- > 0;)
    for (const EdgeFlow &edge : edges)
      if (edge.gradient && edge.producer == s) {
        uint32_t wanted = wantedSlots(stages[s], stages[edge.consumer], result.slots[edge.consumer], stepSamples);
        result.slots[s] = std::max(result.slots[s], std::min(wanted, most));
      }
  for (const EdgeFlow &edge : edges) {
    const StageFlow &producer = stages[edge.producer], &consumer = stages[edge.consumer];
    result.depth.push_back(ringSlots(consumer, producer, result.slots[edge.consumer]) + consumer.more);
    result.gradientDepth.push_back(ringSlots(producer, consumer, 0) + producer.more);
  }
  for (uint32_t s = 0; s < stages.size(); ++s)
    if (std::any_of(edges.begin(), edges.end(),
                    [&](const EdgeFlow &edge) { return edge.gradient && (edge.producer == s || edge.consumer == s); }))
      result.slots[s] = std::min(result.slots[s] + stages[s].more, std::max(most, result.slots[s]));
  return result;
}

} // namespace maestro::cost_models
