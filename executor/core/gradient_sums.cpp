#include "executor/core/gradient_sums.h"

#include <algorithm>

namespace maestro::executor {

Status GradientSums::open(const World &world, const Topology &topology, uint32_t rank, Device &device) {
  for (size_t sum = 0; sum < world.gradientSums(); ++sum) {
    std::span<const uint32_t> stations = world.stationsOf(sum);
    for (uint32_t i = 0; i < stations.size(); ++i)
      if (topology.stations[stations[i]].rank == rank) {
        MAESTRO_ASSIGN(Reduction::Member member, world.gradientSum(sum, i, device));
        members.push_back({stations[i], std::move(member)});
      }
  }
  return Status();
}

/// A phase of one turn of all sums. Waiting for the others is not time that the device was busy.
Status GradientSums::queuePhase(Device &device, TaskTimes &times, uint32_t phase, uint64_t turnOfCall) {
  for (Member &member : members) {
    Reduction::Member &own = member.reduction;
    if (turnOfCall >= own.turns() || phase >= own.phases())
      continue;
    uint64_t turn = calls * own.turns() + turnOfCall;
    own.await(Queue::Compute, phase, turn);
    times.begin(device, member.station, plan::kNone, TaskSpan::Kind::Reduce, 0);
    MAESTRO_TRY(own.work(Queue::Compute, phase, turn));
    times.end(device);
  }
  return Status();
}

/// All sums go from phase to phase together, so that nobody waits for each sum by itself.
Status GradientSums::queue(Device &device, TaskTimes &times) {
  uint64_t turns = 0;
  uint32_t phases = 0;
  for (const Member &member : members) {
    turns = std::max(turns, member.reduction.turns());
    phases = std::max(phases, member.reduction.phases());
  }
  for (uint64_t tick = 0; turns > 0 && tick < turns + phases - 1; ++tick)
    for (uint32_t phase = 0; phase <= std::min<uint64_t>(phases - 1, tick); ++phase)
      MAESTRO_TRY(queuePhase(device, times, phase, tick - phase));
  for (Member &member : members)
    if (uint64_t own = member.reduction.turns(); own > 0)
      member.reduction.awaitSum(Queue::Compute, (calls + 1) * own - 1);
  ++calls;
  return Status();
}

} // namespace maestro::executor
