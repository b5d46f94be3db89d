#include "planner/search/finalists.h"

#include "planner/search/search_space.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <thread>

namespace maestro::planner {
namespace {

/// Whose step is no longer than the best's by this factor may be the best once schedules are tuned, and near whose
/// layout something better may lie.
constexpr double kNearlyBest = 1.03, kWorthAStart = 1.25;
/// Of a way to share devices, so many layouts' schedules are tuned for the second search, which looks near so many of
/// all of them and begins schedules where those of the best few do.
constexpr size_t kMostOfGrouping = 6, kMostStarts = 14, kMostHinting = 6;
/// Finalists that differ in sizes and recompute alone.
constexpr size_t kMostOfStructure = 4;
/// Finalists whose schedules are tuned once more, beginning where the others' do.
constexpr size_t kMostTunedTwice = 4;

struct TunedLayout {
  const RankedLayout *layout;
  cost_models::Simulation tuned;
};

/// With tuned schedules, the best first; none after a deadline.
std::vector<TunedLayout> tuneAll(const SearchProblem &problem, const std::vector<const RankedLayout *> &layouts,
                                 const std::vector<wavefront::Choice> &hints) {
  std::vector<std::optional<cost_models::Simulation>> tuned(layouts.size());
  std::atomic<size_t> next{0};
  auto work = [&] {
    cost_models::Simulator simulator(problem.steps, problem.budget.mostTasks, hints);
    for (size_t i; (i = next++) < layouts.size() && !(problem.isOver && problem.isOver());)
      if (auto own = simulator.runTuned(modelOf(problem, layouts[i]->layout), problem.machine,
                                        choicesOf(layouts[i]->layout), cost_models::Tuning::Rank);
          own.isOk())
        tuned[i] = std::move(*own);
  };
  std::vector<std::future<void>> beside;
  for (uint32_t thread = 1; thread < std::thread::hardware_concurrency() && thread < layouts.size(); ++thread)
    beside.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void> &other : beside)
    other.get();
  std::vector<TunedLayout> found;
  for (size_t i = 0; i < layouts.size(); ++i)
    if (tuned[i])
      found.push_back({layouts[i], std::move(*tuned[i])});
  std::stable_sort(found.begin(), found.end(), [](const TunedLayout &a, const TunedLayout &b) {
    return a.tuned.stepSeconds < b.tuned.stepSeconds;
  });
  return found;
}

/// Where the schedules of the first few layouts begin: of each the best, then the next best.
std::vector<wavefront::Choice> hintsOf(std::span<const TunedLayout> tuned) {
  std::vector<wavefront::Choice> hints;
  for (size_t rank = 0; rank < wavefront::kMostHints; ++rank)
    for (const TunedLayout &own : tuned)
      if (rank < own.tuned.hints.size() && hints.size() < wavefront::kMostHints &&
          std::find(hints.begin(), hints.end(), own.tuned.hints[rank]) == hints.end())
        hints.push_back(own.tuned.hints[rank]);
  return hints;
}

/// By section: replicas, stages, and the first and the number of its devices.
using Structure = std::vector<std::array<size_t, 4>>;

Structure structureOf(const Layout &layout) {
  Structure structure;
  for (const LayoutOption &own : layout) {
    std::set<uint32_t> devices = devicesOf(own);
    structure.push_back({own.devices.size(), own.cut.stages(), *devices.begin(), devices.size()});
  }
  return structure;
}

/// By section: the first with which it shares devices.
std::vector<size_t> groupingOf(const Layout &layout) {
  std::vector<size_t> grouping;
  for (size_t s = 0; s < layout.size(); ++s) {
    std::set<uint32_t> own = devicesOf(layout[s]);
    size_t first = 0;
    while (first < s) {
      std::set<uint32_t> other = devicesOf(layout[first]);
      if (std::any_of(own.begin(), own.end(), [&](uint32_t device) { return other.count(device) > 0; }))
        break;
      ++first;
    }
    grouping.push_back(first);
  }
  return grouping;
}

/// The section that most devices' time goes to.
size_t busiest(const TunedLayout &own) {
  std::vector<double> seconds;
  for (size_t s = 0; s < own.tuned.sections.size(); ++s)
    seconds.push_back(own.tuned.sections[s].busySeconds * static_cast<double>(devicesOf(own.layout->layout[s]).size()));
  return static_cast<size_t>(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
}

} // namespace

void answerWith(const AtomicModel &model, RankedLayout layout, std::string winner, SearchResult &result) {
  ComparedLayout &row = result.compared.front();
  row.what = describe(model, layout.layout);
  row.layout = result.layout = std::move(layout.layout);
  row.simulation = result.simulation = std::move(layout.simulation);
  result.winner = std::move(winner);
}

void chooseTuned(const SearchProblem &problem, SearchResult &result) {
  double most = kNearlyBest * result.simulation.stepSeconds;
  auto baselines = std::span(result.compared).subspan(1);
  for (const ComparedLayout &row : baselines)
    if (row.possible && !row.inFileOrder)
      most = std::min(most, row.simulation.stepSeconds);
  std::vector<const RankedLayout *> finalists;
  std::map<Structure, size_t> ofStructure;
  for (const RankedLayout &own : result.simulated)
    if (finalists.size() < problem.budget.finalists && own.simulation.stepSeconds <= most &&
        ++ofStructure[structureOf(own.layout)] <= kMostOfStructure)
      finalists.push_back(&own);
  std::vector<TunedLayout> tuned = tuneAll(problem, finalists, problem.hints);
  tuned.resize(std::min(tuned.size(), kMostTunedTwice));
  finalists.clear();
  for (const TunedLayout &own : tuned)
    finalists.push_back(own.layout);
  // What is best for one of them is near what is for others.
  std::vector<TunedLayout> again = tuneAll(problem, finalists, hintsOf(tuned));
  if (again.empty())
    return;
  const RankedLayout chosen = *again.front().layout;
  auto same = std::find_if(baselines.begin(), baselines.end(),
                           [&](const ComparedLayout &row) { return row.layout == chosen.layout; });
  result.tuned = std::move(again.front().tuned);
  answerWith(problem.model, chosen, same == baselines.end() ? "search" : same->name, result);
}

void beginWith(const SearchProblem &problem, const SearchResult &found, SearchProblem &again) {
  std::set<Structure> structures;
  std::map<std::vector<size_t>, size_t> ofGrouping;
  std::vector<const RankedLayout *> layouts;
  for (const RankedLayout &own : found.simulated)
    if (own.simulation.stepSeconds <= kWorthAStart * found.simulation.stepSeconds &&
        structures.insert(structureOf(own.layout)).second && ++ofGrouping[groupingOf(own.layout)] <= kMostOfGrouping)
      layouts.push_back(&own);
  std::vector<TunedLayout> tuned = tuneAll(problem, layouts, problem.hints);
  again.hints = hintsOf(std::span(tuned).first(std::min(tuned.size(), kMostHinting)));
  // What is far above its bound may gain most.
  auto promise = [](const TunedLayout &own) { return own.tuned.stepSeconds * own.tuned.lowerBoundSeconds; };
  std::stable_sort(tuned.begin(), tuned.end(),
                   [&](const TunedLayout &a, const TunedLayout &b) { return promise(a) < promise(b); });
  std::set<std::pair<std::vector<size_t>, std::array<size_t, 4>>> begun;
  for (const TunedLayout &own : tuned) {
    const Layout &layout = own.layout->layout;
    size_t section = busiest(own);
    if (again.starts.size() < kMostStarts && begun.insert({groupingOf(layout), structureOf(layout)[section]}).second)
      again.starts.push_back(layout);
  }
}

void tuneThoroughly(const SearchProblem &problem, SearchResult &result) {
  if (!result.tuned || problem.isOver) // It takes seconds, and no deadline ends it.
    return;
  cost_models::Simulator simulator(problem.steps, problem.budget.mostTasks, result.tuned->hints);
  auto own = simulator.runTuned(modelOf(problem, result.layout), problem.machine, choicesOf(result.layout),
                                cost_models::Tuning::Thorough);
  if (own.isOk() && own->stepSeconds < result.tuned->stepSeconds)
    result.tuned = std::move(*own);
}

} // namespace maestro::planner
