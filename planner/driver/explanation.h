// What a plan says of itself for people, beside its decisions.
#pragma once

#include "cost_models/machine.h"
#include "plan/plan_generated.h"
#include "planner/search/explain.h"
#include "planner/workload/cluster.h"

#include <vector>

namespace maestro::planner {

/// The rates of each kind of device and the levels of links, each with its source.
std::vector<Quantity> machineQuantities(const cost_models::Machine &machine, const ClusterSpec &cluster);

/// Rows as tables.
void addExplanation(const Explanation &explanation, plan::fb::PlanT &plan);

} // namespace maestro::planner
