// What no layout of the whole space can beat, however large the cluster.
#pragma once

#include "planner/search/cuts.h"

namespace maestro::planner {

/// Seconds of a step that no layout of the space is below (the cuts, sizes of micro-batches, any replicas and
/// placement), by halving: a time is possible only if for some longest update u
///  - each section that trains has an option whose update is at most u and whose busiest stage, behind the shortest way
///  of a sample
///    through the stages around it, ends before it, on no more devices than there are;
///  - all work, and the devices that train while they update, fit into the devices' time.
/// Memory is asked of each stage alone. Then by families of layouts (family_bound.h). Where `found` is the step of some
/// layout, no more than that.
double spaceBound(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work,
                  double found = std::numeric_limits<double>::infinity());

} // namespace maestro::planner
