// Best first over families of layouts: exact where it comes to an end.
#pragma once

#include "planner/search/candidates.h"
#include "planner/search/search_space.h"

#include <limits>

namespace maestro::planner {

struct Best {
  double seconds = std::numeric_limits<double>::infinity();
  Family family; ///< The layout's.
  Layout layout;
  cost_models::Simulation simulation;
  double leastLeft = std::numeric_limits<double>::infinity(); ///< The least bound of what was not looked at.
};

/// Improves `best` with layouts of the families: partial ones by a bound that none of their completions can beat, whole
/// ones by the scheduler's own lower bound, then simulated. Where it comes to no end within half of the allowance, the
/// other half goes to changes of one section at a time around what was found. Fails only where a simulation does.
Status searchFamilies(const SearchProblem &problem, const CutTable &cuts, const WorkBounds &bounds,
                      Candidates &candidates, const std::vector<Family> &families, wavefront::Order order,
                      Allowance allowance, uint64_t &nodes, Best &best);

} // namespace maestro::planner
