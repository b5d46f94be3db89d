// What maestro-plan's command line names: files to read, and one to write.
#pragma once

#include "planner/driver/plan_command.h"
#include "planner/workload/cluster_machine.h"
#include "planner/workload/workload.h"

namespace maestro::planner {

struct PlanInputs {
  Workload workload;
  ClusterSpec cluster;
  PlannedMachine target;
};

/// The workload file, or the models alone; the cluster file, or this machine.
Result<PlanInputs> readInputs(const PlanOptions &options);

/// InvalidInput where the plan cannot be written: before the work, not after it.
Status checkOutput(const PlanOptions &options);
/// InvalidInput where it would replace what it is made from: a plan points at that.
Status checkOverwrites(const PlanOptions &options, const Workload &workload);

} // namespace maestro::planner
