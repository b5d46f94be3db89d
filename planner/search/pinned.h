// A layout of the user's own beside what the search would have chosen.
#pragma once

#include "planner/search/search_problem.h"

namespace maestro::planner {

/// The problem with every decision open, for comparison: one answer.
SearchProblem withoutPins(const SearchProblem &problem);

/// Like searchLayouts(); where anything is pinned, the answer is the best layout that obeys, row "pinned", whatever is
/// faster. The rows beside it ("search", and the baselines) are of withoutPins() and say so
/// (ComparedLayout.isWithoutPins). There the pinned layout is a candidate like any other: pins never gain. The bound is
/// of the pinned space. Together they take at most half as much again as the budget. InvalidInput where no layout that
/// obeys fits, with what would fit without the pins.
Result<SearchResult> searchBesidePins(const SearchProblem &problem);

/// How many times as long a step takes as without the pins, at least 1; nothing where nothing was compared.
std::optional<double> costOfPins(const SearchResult &result);

} // namespace maestro::planner
