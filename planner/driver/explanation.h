// The search's explanation as the plan's tables.
#pragma once

#include "plan/plan_generated.h"
#include "planner/explain/explain.h"

namespace maestro::planner {

/// Rows as tables.
void addExplanation(const Explanation &explanation, plan::fb::PlanT &plan);

} // namespace maestro::planner
