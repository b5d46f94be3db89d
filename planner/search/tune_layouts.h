// The last choice of the search: what is nearly best is told apart by schedules that are tuned, as the plan's will be.
#pragma once

#include "planner/search/search_problem.h"

namespace maestro::planner {

/// Tunes the schedules of at most `SearchBudget.finalists` of the layouts that were simulated, those of nearly the best
/// step; that whose step is then shortest is the answer, and `tuned` what it takes. Leaves the answer as it is where
/// there are no finalists, or a deadline has passed. `compared` has the baselines.
void chooseTuned(const SearchProblem &problem, SearchResult &result);

} // namespace maestro::planner
