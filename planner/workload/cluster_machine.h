// From a cluster file to the machine that costs are computed for.
#pragma once

#include "base/status.h"
#include "cost_models/machine.h"
#include "planner/workload/cluster.h"

#include <cstdint>
#include <string>

namespace maestro::planner {

struct PlannedMachine {
  std::string name;
  cost_models::Machine machine;
  uint32_t deviceThreads = 0; ///< CPU threads of each device; 0: all of the machine's.
};

/// `path`: of the cluster file, to which profiles' paths are relative; empty: this machine. InvalidInput for devices
/// that are not known, links that do not join all devices, counts that contradict each other.
Result<PlannedMachine> machineOf(const ClusterSpec &cluster, const std::string &path);

} // namespace maestro::planner
