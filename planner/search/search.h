// The search: the layout of a compound workload whose step is shortest, of those that it has the budget to look at.
#pragma once

#include "planner/search/search_problem.h"

namespace maestro::planner {

/// The best layout found, and what it was compared with: all data parallel, one layout for all, a static split. Begins
/// with the best layout of every way to group sections, by estimates; simulates the best of these with the executor's
/// scheduler; then changes one decision at a time (moves.h), best first, until the budget is spent or nothing is left.
/// A heuristic: on small problems it finds what enumeration finds, on large ones SearchResult.lowerBoundSeconds says
/// what may be missing. Never worse than a baseline. The same problem has the same answer on every machine.
/// InvalidInput where nothing fits.
Result<SearchResult> searchLayouts(const SearchProblem &problem);

} // namespace maestro::planner
