// What no layout of the space can beat, family by family: which sections share devices, and each one's cut, size of
// micro-batches, and number of replicas.
#pragma once

#include "planner/search/cuts.h"

namespace maestro::planner {

/// Seconds of a step that no layout of the space is below: from `low`, which is proven, up to `most`, beyond which
/// nothing is of interest, by halving. A time is possible only if it is for some family:
///  - groups have devices of their own, and a group's sections its first ones, each as many as it has stages and
///  replicas;
///  - each section's tasks, and the longest update behind them, take no longer (option_bounds.h);
///  - every section's work can be divided among its replicas, each with the same part in all of its stages, so that
///  each device has done all
///    of its own when updates begin (divisible_work.h);
///  - each device holds its stages, with places for the samples that are on the way in the sections behind.
/// Nothing is added where sections are pinned to devices, on more than 64 devices, and where there are too many
/// families to look at.
double familyBound(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work, double low, double most);

} // namespace maestro::planner
