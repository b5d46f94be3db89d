// Why a search's answer is what it is: what else each decision could have been, what binds, and what more of a machine
// would bring. Layouts are judged by simulating them; how the search found its own does not matter here.
//
//   SearchProblem + SearchResult ─▶ explain() ─▶ candidates   the comparison; each decision's next best value; what-ifs
//                                             ├▶ limits       the busiest device, the fullest, edges and sums that work
//                                             does not hide └▶ quantities   what was simulated, by name
#pragma once

#include "planner/search/search_problem.h"

#include <cstdint>
#include <string>
#include <vector>

namespace maestro::planner {

/// Rows as a plan has them (plan/plan.fbs, "For people"): fields, units and meaning are said there.
struct Candidate {
  enum class Kind : uint8_t { Layout, Alternative, WhatIf } kind = Kind::Layout;
  std::string subject, choice;
  double stepSeconds = 0;
  uint64_t missingBytes = 0;
  bool inFileOrder = false;
  std::string reason;
};

struct Limit {
  enum class Kind : uint8_t { Time, Memory } kind = Kind::Time;
  std::string place;
  double used = 0, limit = 0;
  std::string reason;
};

struct Quantity {
  std::string name;
  double value = 0;
  std::string unit, source;
};

struct Explanation {
  std::vector<Candidate> candidates;
  std::vector<Limit> limits;
  std::vector<Quantity> quantities;
};

/// What explaining may spend, in simulated tasks (about 1 µs each). Counted, never clocked. Half of it goes to
/// alternatives, decision by decision; what it does not reach is left out. With 0, all alternatives and what-ifs are.
struct ExplainBudget {
  uint64_t tasks = 1'000'000;
};

/// Of a verified result; quantities are of `own`: the answer's simulation, or that of the plan made of it.  An
/// alternative changes one decision of one section and leaves the rest as it is, pinned ones included; a what-if
/// changes the machine in one thing, and at most one decision to make use of it: neither searches anew, so more may be
/// possible than is said.
Result<Explanation> explain(const SearchProblem &problem, const SearchResult &result,
                            const cost_models::Simulation &own, const ExplainBudget &budget = {});

/// A row of the comparison beside a layout that takes as long as `chosen`.
Candidate candidateOf(const SearchProblem &problem, const ComparedLayout &row, const cost_models::Simulation &chosen);
/// "the pins cost 1.18 x"
std::string phraseOfCost(double cost);

/// "1.23 s", "45.6 ms": three digits.
std::string duration(double seconds);

} // namespace maestro::planner
