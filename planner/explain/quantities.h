// The numbers of an answer, by name: what was simulated, and where the mean device's step goes.
#pragma once

#include "planner/explain/explain.h"
#include "planner/search/cuts.h"

#include <vector>

namespace maestro::planner {

/// Of the answer's simulation, or that of the plan made of it.
std::vector<Quantity> quantitiesOf(const SearchProblem &problem, const SearchResult &result, const Cuts &cuts,
                                   const cost_models::Simulation &simulation);

} // namespace maestro::planner
