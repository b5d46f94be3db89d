// What no layout of the space can beat, however large the cluster.
#pragma once

#include "planner/search/cuts.h"

namespace maestro::planner {

/// Seconds of a step that no layout is below, whatever its groups, replicas and placement: all work fits into the
/// devices' time, and the longest sample's critical path into the step, each with the variants that are cheapest. Not
/// held against any layout: a step below it is a defect, which verify() reports.
double lowerBoundSeconds(const SearchProblem &problem, const Cuts &cuts);

} // namespace maestro::planner
