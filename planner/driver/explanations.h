// Why a plan is as it is, as tables of the plan: what else was possible and what it would cost, what binds, what more of something
// would bring.
#pragma once

#include "plan/plan_generated.h"
#include "planner/search/search_problem.h"

namespace maestro::planner {

/// What one more node (or device), 10 GB more memory, and twice the bandwidth of each link level would bring: each by a small
/// search, or a simulation of the same layout. Steps are no longer than the answer's.
struct WhatIf {
  std::string subject, choice;
  double stepSeconds = 0;
};
std::vector<WhatIf> whatIf(const SearchProblem &problem, const SearchResult &result);

/// The fewest devices, of those there are times a power of two up to 64, that hold the workload; nothing where none do.
std::optional<uint32_t> smallestCluster(const SearchProblem &problem);

/// Fills in Plan.candidates, limits and quantities. `own` is simulated on the plan's own costs; `rank` says which of the ranked
/// layouts the plan has.
void explain(const SearchProblem &problem, const SearchResult &result, const std::vector<WhatIf> &whatIfs, size_t rank,
             const cost_models::Simulation &own, plan::fb::PlanT &plan);

} // namespace maestro::planner
