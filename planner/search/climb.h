// Local search: from some layouts, one decision changed at a time, best first.
#pragma once

#include "planner/search/baselines.h"
#include "planner/search/moves.h"

#include <limits>
#include <vector>

namespace maestro::planner {

/// The best layout so far.
struct Best {
  double seconds = std::numeric_limits<double>::infinity();
  Layout layout;
  cost_models::Simulation simulation;
};

/// Simulates the first `most` of the layouts that can be made to fit (fillMemory()), then changes of the best of all in
/// the order of their estimates: what is simulated is where changes are looked for next, and what brought nothing for
/// some time comes after the next best. `best` gets what is faster. Ends when nothing is left or the allowance is
/// spent. Changes that the family leaves out, or that SearchProblem.without names, are not looked at.
Status climb(const MoveContext &context, const std::vector<Layout> &starts, size_t most, const Family &family,
             wavefront::Order order, Allowance &allowance, Best &best);

} // namespace maestro::planner
