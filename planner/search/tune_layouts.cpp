#include "planner/search/tune_layouts.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

namespace maestro::planner {
namespace {

/// A layout within this factor of the best is tuned, too: tuning gains up to 10 %, and differs by 3 % between layouts.
constexpr double kNearlyBest = 1.03;

/// What tells finalists apart before their sizes and recompute do: replicas and stages of each section, and its group.
std::vector<uint32_t> structureOf(const Layout &layout) {
  std::vector<uint32_t> structure;
  for (uint32_t s = 0; s < layout.sections.size(); ++s) {
    const SectionOption &own = layout.sections[s];
    structure.insert(structure.end(), {own.replicas, own.stages(), static_cast<uint32_t>(layout.groupOf(s))});
  }
  return structure;
}

/// The best layout of each structure, best first.
std::vector<const RankedLayout *> finalistsOf(const SearchProblem &problem, const SearchResult &result) {
  double most = kNearlyBest * result.simulation.stepSeconds; // And no worse than a baseline.
  for (const ComparedLayout &row : result.compared)
    if (row.possible && !row.inFileOrder)
      most = std::min(most, row.simulation.stepSeconds);
  std::vector<const RankedLayout *> finalists;
  std::set<std::vector<uint32_t>> structures;
  for (const RankedLayout &own : result.simulated)
    if (finalists.size() < problem.budget.finalists && own.simulation.stepSeconds <= most &&
        (own.layout == result.layout ||
         (obeys(problem, own.layout) && structures.insert(structureOf(own.layout)).second)))
      finalists.push_back(&own);
  return finalists;
}

/// By finalist; nothing behind a deadline.
std::vector<std::optional<cost_models::Simulation>> tuneAll(const SearchProblem &problem,
                                                            const std::vector<const RankedLayout *> &finalists) {
  std::vector<std::optional<cost_models::Simulation>> tuned(finalists.size());
  std::atomic<size_t> next{0};
  auto work = [&] {
    cost_models::Simulator simulator(problem.steps, problem.budget.tasksAtOnce, problem.hints);
    for (size_t i; (i = next++) < finalists.size() && !(problem.isOver && problem.isOver());) {
      const Layout &layout = finalists[i]->layout;
      auto own = simulator.runTuned(modelOf(problem.model, layout), problem.machine, place(layout, problem.machine),
                                    cost_models::Tuning::Rank);
      if (own.isOk())
        tuned[i] = std::move(*own);
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t thread = 1; thread < std::thread::hardware_concurrency() && thread < finalists.size(); ++thread)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  return tuned;
}

} // namespace

void chooseTuned(const SearchProblem &problem, SearchResult &result) {
  std::vector<const RankedLayout *> finalists = finalistsOf(problem, result);
  std::vector<std::optional<cost_models::Simulation>> tuned = tuneAll(problem, finalists);
  std::optional<size_t> best;
  for (size_t i = 0; i < tuned.size(); ++i)
    if (tuned[i] && (!best || tuned[i]->stepSeconds < tuned[*best]->stepSeconds))
      best = i;
  if (!best)
    return;
  if (finalists[*best]->layout != result.layout) {
    auto same = std::find_if(result.compared.begin(), result.compared.end(),
                             [&](const ComparedLayout &row) { return row.layout == finalists[*best]->layout; });
    result.winner = same == result.compared.end() ? "search" : same->name;
    result.layout = finalists[*best]->layout;
    result.simulation = finalists[*best]->simulation;
  }
  result.tuned = std::move(tuned[*best]);
}

} // namespace maestro::planner
