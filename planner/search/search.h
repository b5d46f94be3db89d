// The search over layouts.
#pragma once

#include "planner/search/search_problem.h"

namespace maestro::planner {

/// The layout of least simulated step time. Baselines are searched first within their restrictions, and stay the answer
/// unless something is faster. Then the best of every grouping by estimates (shapes.h), simulated, and what is one
/// change away; beside it the same without parts of layers that have a recompute of their own (base/recompute.h), since
/// less space is searched better. Where the space is small, best first over all of it (best_first.h), which is exact
/// when it comes to an end (isProven). The bound is of the whole space. InvalidInput where no layout fits the devices'
/// memory, naming what lacks least.
Result<SearchResult> searchLayouts(const SearchProblem &problem);

} // namespace maestro::planner
