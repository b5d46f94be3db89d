#include "cost_models/in_flight.h"

#include <algorithm>

namespace maestro::cost_models {
namespace {

/// Micro-batches at each replica of `of` that hold the samples of `count` at each replica of `per`, of `most` samples in all.
uint32_t share(const StageFlow &of, const StageFlow &per, uint32_t count, int64_t most) {
  int64_t samples = std::min(count * per.microBatch * per.replicas, most), each = of.microBatch * of.replicas;
  return static_cast<uint32_t>(std::min<int64_t>((samples + each - 1) / each, UINT32_MAX / 2));
}

uint32_t wantedSlots(const StageFlow &producer, const StageFlow &consumer, uint32_t consumerSlots, int64_t stepSamples) {
  if (producer.section == consumer.section)
    return consumerSlots + kOwnSlots;
  return share(producer, consumer, consumerSlots + kWaitingForSection / 2, stepSamples) + kOwnSlots;
}

/// Slots of a ring at a replica of `receiver` that one task of each sender fills, and those that may wait.
uint32_t ringSlots(const StageFlow &receiver, StageFlow sender, uint32_t held) {
  if (receiver.section == sender.section)
    return std::max(1u, held) + kWaitingForStage;
  sender.replicas = std::max(sender.replicas, receiver.replicas); // All to one, where there are fewer.
  return std::max(share(receiver, sender, 1, kAnySamples), held) + kWaitingForSection;
}

} // namespace

InFlight microBatchesInFlight(std::span<const StageFlow> stages, std::span<const EdgeFlow> edges, int64_t stepSamples) {
  const uint32_t most = static_cast<uint32_t>(std::min<int64_t>(kMostSlots, stepSamples)); // Each has a sample at least.
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
    if (std::any_of(edges.begin(), edges.end(), [&](const EdgeFlow &edge) { return edge.gradient && (edge.producer == s || edge.consumer == s); }))
      result.slots[s] = std::min(result.slots[s] + stages[s].more, std::max(most, result.slots[s]));
  return result;
}

} // namespace maestro::cost_models
