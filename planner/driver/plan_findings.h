// What a simulation of an emitted plan says of it, and the search of what else there was: added to the plan's tables
// before they become bytes.
#pragma once

#include "plan/plan_generated.h"
#include "planner/driver/step_sizes.h"
#include "planner/explain/explain.h"
#include "planner/workload/workload.h"

#include <optional>
#include <vector>

namespace maestro::planner {

struct PlanFindings {
  std::optional<double> stepSeconds; ///< Nothing where the step was not simulated: emission's stays.
  std::vector<Decision> decisions;   ///< Of the search.
  Explanation explanation;
};

/// With how much work the steps of `sizes` are, and of what the machine's devices could do how much that is; of data
/// the plan keeps the steps themselves.
void addFindings(const PlanFindings &findings, const StepSizes &sizes, const cost_models::Machine &machine,
                 const TrainSpec &train, plan::fb::PlanT &plan);

} // namespace maestro::planner
