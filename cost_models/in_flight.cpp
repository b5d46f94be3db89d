#include "cost_models/in_flight.h"

#include <algorithm>

namespace maestro::cost_models {
namespace {

/// More micro-batches in flight than this gain little and cost a slot each.
constexpr uint32_t kMostSlots = 16;

/// Micro-batches of `from` that one of `to` may need.
uint32_t ratio(const StageFlow &from, const StageFlow &to) {
  return static_cast<uint32_t>((to.microBatch + from.microBatch - 1) / from.microBatch);
}

} // namespace

InFlight microBatchesInFlight(std::span<const StageFlow> stages, std::span<const EdgeFlow> edges) {
  InFlight result;
  result.slots.assign(stages.size(), 1);
  for (uint32_t s = static_cast<uint32_t>(stages.size()); s-- > 0;)
    for (const EdgeFlow &edge : edges) {
      if (!edge.gradient || edge.producer != s)
        continue;
      const StageFlow &consumer = stages[edge.consumer];
      uint32_t wanted = result.slots[edge.consumer] + 1;
      if (consumer.section != stages[s].section)
        wanted = ratio(stages[s], consumer) * result.slots[edge.consumer] + 1;
      result.slots[s] = std::max(result.slots[s], std::min(wanted, kMostSlots));
    }
  for (const EdgeFlow &edge : edges) {
    const StageFlow &producer = stages[edge.producer], &consumer = stages[edge.consumer];
    bool same = producer.section == consumer.section;
    uint32_t reached = same ? 1 : ratio(consumer, producer);
    result.depth.push_back(std::max(reached + 1, result.slots[edge.consumer] + 1));
    result.gradientDepth.push_back((same ? 1 : ratio(producer, consumer)) + 1);
  }
  return result;
}

} // namespace maestro::cost_models
