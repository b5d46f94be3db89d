#include "planner/search/search.h"

#include "planner/search/climb.h"
#include "planner/search/lower_bound.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace maestro::planner {
namespace {

/// Layouts of different groupings that are simulated before any is changed, as a part of the budget.
constexpr uint32_t kStartsShare = 8;
/// What each baseline may spend, as a part of the budget; and how many of its layouts are simulated first.
constexpr uint32_t kBaselineShare = 8;
constexpr size_t kBaselineStarts = 3;
/// Where estimates of memory are too low for anything to fit, less of it is looked at; where they are too high, any.
constexpr double kSearchedMemoryShares[] = {1, 0.85, 0.7, 0.55, 0.4, std::numeric_limits<double>::infinity()};

/// What the phases of a search share.
struct Search {
  const SearchProblem &problem;
  Cuts cuts{problem};
  Estimator estimator{problem, cuts};
  Candidates candidates{problem};
  MoveContext context{problem, cuts, estimator, candidates};
  Best best = {};
  SearchResult result = {};
};

Allowance shareOf(const SearchBudget &budget, uint32_t share) {
  return {std::max(2u, budget.simulations / share), budget.tasks / share};
}

/// A line of the comparison.
ComparedLayout rowOf(Search &search, std::string_view name, const Best &best, wavefront::Order order) {
  ComparedLayout row;
  row.name = name;
  row.possible = !best.layout.empty();
  row.inFileOrder = order == wavefront::Order::FileOrder;
  row.layout = best.layout;
  row.simulation = best.simulation;
  row.what = row.possible                         ? describe(search.problem.model, search.problem.machine, best.layout)
             : search.candidates.lack().needs > 0 ? "does not fit the devices' memory"
             : search.candidates.wasCutShort()    ? "the deadline came first"
                                                  : "not possible under the pins or in the devices' memory";
  return row;
}

/// The best of a baseline's family. What runs is reordered, so its layout is a candidate as it would run.
Status addBaseline(Search &search, const NamedBaseline &baseline) {
  Best own;
  Allowance allowance = shareOf(search.problem.budget, kBaselineShare);
  MAESTRO_TRY(climb(search.context, baseline.layouts(search.problem, search.cuts, search.estimator), kBaselineStarts,
                    baseline.family, baseline.order, allowance, own));
  search.result.compared.push_back(rowOf(search, baseline.name, own, baseline.order));
  if (own.layout.empty())
    return Status();
  Allowance one{1, UINT64_MAX};
  MAESTRO_ASSIGN(auto simulated, search.candidates.simulate({&own.layout, 1}, wavefront::Order::Wavefront, one));
  if (simulated[0] && simulated[0]->stepSeconds < search.best.seconds) {
    search.best = {simulated[0]->stepSeconds, own.layout, *simulated[0]};
    search.result.winner = baseline.name;
  }
  return Status();
}

Status addBaselines(Search &search) {
  for (const NamedBaseline &baseline : kBaselines)
    MAESTRO_TRY(addBaseline(search, baseline));
  return Status();
}

/// With a split backward wherever that may gain something.
void splitBackward(const SearchProblem &problem, Layout &layout) {
  for (uint32_t s = 0; s < layout.sections.size(); ++s)
    if (SectionCut &cut = layout.sections[s].cut; !problem.pins[s].splitStages &&
                                                  !problem.without.count("split_backward") &&
                                                  mayGainBySplitting(problem, s, cut.stages()))
      cut.splitStages = static_cast<uint32_t>(cut.stages());
}

/// From the best of every grouping on.
Status searchFromGroupings(Search &search) {
  Allowance allowance = shareOf(search.problem.budget, 1);
  double before = search.best.seconds;
  size_t most = std::max(2u, search.problem.budget.simulations / kStartsShare);
  for (double share : kSearchedMemoryShares) {
    std::vector<Layout> starts =
        bestOfGroupings(search.problem, search.cuts, search.estimator, {share, kMaxStages}, most);
    for (Layout &start : starts)
      splitBackward(search.problem, start);
    starts.insert(starts.begin(), search.problem.starts.begin(), search.problem.starts.end());
    if (!search.best.layout.empty())
      starts.push_back(search.best.layout);
    Best own;
    MAESTRO_TRY(
        climb(search.context, starts, most, {true, false, kMaxStages}, wavefront::Order::Wavefront, allowance, own));
    bool isFound = !own.layout.empty();
    if (own.seconds < search.best.seconds)
      search.best = std::move(own);
    if (isFound || search.candidates.isOver())
      break;
  }
  if (search.best.seconds < before)
    search.result.winner = "search";
  return Status();
}

/// The sections that no cut makes small enough, or that are only together too much.
std::string lackOfSections(const Search &search) {
  uint64_t has = 0;
  for (const cost_models::DeviceModel &kind : search.problem.machine.kinds)
    has = std::max(has, kind.memoryBytes);
  auto gib = [](uint64_t bytes) { return static_cast<double>(bytes) / 0x1p30; };
  std::string text;
  for (uint32_t s = 0; s < search.problem.pins.size(); ++s)
    if (uint64_t needs = search.estimator.leastBytes(s); needs != UINT64_MAX && needs > has)
      text +=
          fmt::format("{}section '{}' needs {:.3f} GiB on a device at least, {:.3f} more than one has",
                      text.empty() ? "" : "; ", search.problem.model.sections[s].name, gib(needs), gib(needs - has));
  return text.empty() ? fmt::format("the sections together need more than {} devices of {:.3f} GiB have",
                                    search.problem.machine.devices, gib(has))
                      : text;
}

Status nothingFits(const Search &search) {
  const Candidates::Lack &lack = search.candidates.lack();
  auto gib = [](uint64_t bytes) { return static_cast<double>(bytes) / 0x1p30; };
  if (lack.needs == 0)
    return Status::invalidInput("no layout fits: " + lackOfSections(search));
  return Status::invalidInput(fmt::format("no layout fits: a device needs {:.3f} GiB at least and has {:.3f} (it runs "
                                          "{})",
                                          gib(lack.needs), gib(lack.has), lack.sections));
}

SearchResult finish(Search &search) {
  SearchResult &result = search.result;
  result.layout = search.best.layout;
  result.simulation = search.best.simulation;
  result.simulated = search.candidates.ranked();
  result.hints = search.problem.hints;
  result.compared.insert(result.compared.begin(),
                         rowOf(search, "search", {result.simulation.stepSeconds, result.layout, result.simulation},
                               wavefront::Order::Wavefront));
  result.lowerBoundSeconds = lowerBoundSeconds(search.problem, search.cuts);
  result.simulations = search.candidates.simulations();
  result.wasCutShort = search.candidates.isOver();
  result.ranked.push_back({result.layout, result.simulation});
  for (const RankedLayout &own : result.simulated)
    if (result.ranked.size() < search.problem.topK && own.layout != result.layout)
      result.ranked.push_back(own);
  return std::move(result);
}

} // namespace

Result<SearchResult> searchLayouts(const SearchProblem &problem) {
  MAESTRO_TRY(check(problem));
  Search search{problem};
  if (!problem.baselinesLast)
    MAESTRO_TRY(addBaselines(search));
  MAESTRO_TRY(searchFromGroupings(search));
  if (problem.baselinesLast && search.best.layout.empty())
    MAESTRO_TRY(addBaselines(search));
  Result<SearchResult> result = search.best.layout.empty() ? nothingFits(search) : Result(finish(search));
  MAESTRO_TRY(problem.model.costs->status()); // Without its costs nothing was found.
  return result;
}

} // namespace maestro::planner
