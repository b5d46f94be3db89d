// What no layout of the space can beat, however large the cluster.
#pragma once

#include "planner/search/cuts.h"

namespace maestro::planner {

/// Seconds of a step that no layout of the space is below: any grouping, replicas and placement of the cuts that the
/// search looks at. A time is possible only if
///  - for some longest update u, each section that trains has an option that fits a device, whose update is at most u,
///    and whose busiest stage ends u before the step does, behind the shortest way of a sample through the stages
///    around it, on no more devices than there are;
///  - all work, and the devices that train while they update, fit into the devices' time;
///  - the longest sample's critical path fits into the step.
/// Found by halving. Not held against any layout: a step below it is a defect, which verify() reports.
double lowerBoundSeconds(const SearchProblem &problem, const Cuts &cuts);

} // namespace maestro::planner
