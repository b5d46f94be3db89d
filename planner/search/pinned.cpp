#include "planner/search/pinned.h"

#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {
namespace {

/// Pins that contradict memory: what there would be without them.
Status nothingObeys(const SearchProblem &problem, Status status) {
  Result<SearchResult> open = searchLayouts(withoutPins(problem));
  if (status.code() != StatusCode::InvalidInput || !open.isOk())
    return status;
  return Status::invalidInput(fmt::format("with these pins {}; without them this fits: {}", status.message(),
                                          describe(problem.model, problem.machine, open->layout)));
}

/// Of the budget, what a search with so many simulations leaves to the one beside it: half at least, nearly all where
/// pins leave little to choose.
SearchBudget rest(const SearchBudget &budget, uint32_t simulations) {
  double share = 1 - 0.5 * std::min(1.0, simulations / std::max(1.0, static_cast<double>(budget.simulations)));
  auto of = [&](auto whole) {
    return std::max<decltype(whole)>(1, static_cast<decltype(whole)>(share * static_cast<double>(whole)));
  };
  return {of(budget.simulations), budget.tasks == UINT64_MAX ? UINT64_MAX : of(budget.tasks), budget.tasksAtOnce,
          budget.nsPerTask};
}

ComparedLayout rowOf(std::string name, const SearchProblem &problem, const SearchResult &result) {
  ComparedLayout row;
  row.name = std::move(name);
  row.what = describe(problem.model, problem.machine, result.layout);
  row.possible = true;
  row.layout = result.layout;
  row.simulation = result.simulation;
  return row;
}

} // namespace

SearchProblem withoutPins(const SearchProblem &problem) {
  SearchProblem open = problem;
  open.pins.assign(problem.pins.size(), {});
  open.topK = 1;
  return open;
}

Result<SearchResult> searchBesidePins(const SearchProblem &problem) {
  if (std::none_of(problem.pins.begin(), problem.pins.end(), [](const SearchPins &pins) { return pins.any(); }))
    return searchLayouts(problem);
  SearchProblem obeying = problem;
  obeying.baselinesLast = true;
  Result<SearchResult> pinned = searchLayouts(obeying);
  if (!pinned.isOk())
    return nothingObeys(problem, std::move(pinned).takeStatus());
  SearchResult result = std::move(*pinned);
  result.winner = "pinned";
  result.compared = {rowOf(result.winner, problem, result)};

  SearchProblem open = withoutPins(problem);
  open.budget = rest(problem.budget, result.simulations);
  open.hints = result.hints;
  Result<SearchResult> free = searchLayouts(open);
  if (!free.isOk()) // What fits only as pinned is all that was found.
    return result;
  MAESTRO_TRY(verify(open, *free));
  bool gains = free->simulation.stepSeconds < result.simulation.stepSeconds;
  result.compared.push_back(rowOf("search", problem, gains ? *free : result));
  result.compared.back().isWithoutPins = true;
  for (ComparedLayout &row : free->compared)
    if (row.name != "search") {
      row.isWithoutPins = true;
      result.compared.push_back(std::move(row));
    }
  result.simulations += free->simulations;
  result.wasCutShort |= free->wasCutShort;
  return result;
}

std::optional<double> costOfPins(const SearchResult &result) {
  for (const ComparedLayout &row : result.compared)
    if (row.isWithoutPins && row.name == "search")
      return result.simulation.stepSeconds / row.simulation.stepSeconds;
  return std::nullopt;
}

} // namespace maestro::planner
