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

/// One turn of all sums. Waiting for the others is not time that the device was busy.
Status GradientSums::queueTurns(Device &device, TaskTimes &times, uint64_t turnOfCall, bool scatters) {
  for (Member &member : members) {
    Reduction::Member &own = member.reduction;
    if (turnOfCall >= own.turns())
      continue;
    uint64_t turn = calls * own.turns() + turnOfCall;
    scatters ? own.awaitStaging(Queue::Compute, turn) : own.awaitScattered(Queue::Compute, turn);
    times.begin(device, member.station, plan::kNone, TaskSpan::Kind::Reduce, 0);
    MAESTRO_TRY(scatters ? own.scatter(Queue::Compute, turn) : own.gather(Queue::Compute, turn));
    times.end(device);
  }
  return Status();
}

/// A turn of all sums is scattered, then the turn before it gathered, so that nobody waits for each sum by itself.
Status GradientSums::queue(Device &device, TaskTimes &times) {
  uint64_t most = 0;
  for (const Member &member : members)
    most = std::max(most, member.reduction.turns());
  for (uint64_t turn = 0; turn <= most; ++turn) {
    MAESTRO_TRY(queueTurns(device, times, turn, true));
    if (turn > 0)
      MAESTRO_TRY(queueTurns(device, times, turn - 1, false));
  }
  for (Member &member : members)
    if (uint64_t turns = member.reduction.turns(); turns > 0)
      member.reduction.awaitGathered(Queue::Compute, (calls + 1) * turns - 1);
  ++calls;
  return Status();
}

} // namespace maestro::executor
