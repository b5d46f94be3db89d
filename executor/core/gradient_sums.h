// A rank's part in the sums of gradients that several stations hold.
#pragma once

#include "executor/core/task_times.h"
#include "executor/core/world.h"

#include <vector>

namespace maestro::executor {

class GradientSums {
public:
  /// As a member of every sum that a station of this rank is in.
  Status open(const World &world, const Topology &topology, uint32_t rank, Device &device);

  /// Queues a whole call of all sums, behind the backward tasks.
  Status queue(Device &device, TaskTimes &times);

private:
  struct Member {
    uint32_t station;
    Reduction::Member reduction;
  };
  Status queuePhase(Device &device, TaskTimes &times, uint32_t phase, uint64_t turnOfCall);

  std::vector<Member> members; ///< Sum by sum.
  uint64_t calls = 0;          ///< So far.
};

} // namespace maestro::executor
