// From a cluster file to the machine that costs are computed for.
#pragma once

#include "base/status.h"
#include "cost_models/machine.h"
#include "planner/workload/cluster.h"
#include "planner/workload/machine_gpus.h"

#include <cstdint>
#include <string>

namespace maestro::planner {

struct PlannedMachine {
  std::string name;
  cost_models::Machine machine;
  uint32_t deviceThreads = 0; ///< CPU threads of each device; 0: all of the machine's.
  std::string note;           ///< What was found where the user said nothing, to be said aloud; empty: nothing.
};

/// `path`: of the cluster file, to which profiles' paths are relative; empty: this machine. InvalidInput for devices
/// that are not known, links that do not join all devices, counts that contradict each other. This machine's devices
/// are its GPUs (`gpuFolder`), where it has some of one kind that is known, else its processors.
Result<PlannedMachine> machineOf(const ClusterSpec &cluster, const std::string &path,
                                 const std::string &gpuFolder = kGpuFolder);

} // namespace maestro::planner
