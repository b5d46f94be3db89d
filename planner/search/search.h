// The search over layouts.
#pragma once

#include "planner/search/search_problem.h"

namespace maestro::planner {

/// The layout of least simulated step time. Best first: partial layouts by a bound that none of their completions can beat,
/// whole ones by the scheduler's own lower bound, and then simulated with the executor's scheduler; it ends when no bound is
/// below the best simulated step, and is exact then (isProven), or when the budget is spent. The baselines are searched first
/// in the same way within their restrictions, and stay the answer unless something is better. InvalidInput where no layout
/// fits the devices' memory, naming what lacks least.
Result<SearchResult> searchLayouts(const SearchProblem &problem);

} // namespace maestro::planner
