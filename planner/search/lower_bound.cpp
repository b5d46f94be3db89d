#include "planner/search/lower_bound.h"

#include <algorithm>
#include <limits>

namespace maestro::planner {
namespace {

/// A bound is rounded down by this, since seconds are added up in other orders than schedules do.
constexpr double kRounding = 1 - 1e-9;

/// Whether each stage of the cut fits the largest device with nothing beside it, and no gradients staged.
bool mayFit(const SearchProblem &problem, const CutFacts &facts, uint32_t microBatch) {
  uint64_t memory = 0;
  for (const cost_models::DeviceModel &kind : problem.machine.kinds)
    memory = std::max(memory, kind.memoryBytes);
  for (size_t i = 0; i < facts.stages.size(); ++i) {
    uint64_t staging = facts.stages[i].parameters.gradients > 0 ? problem.machine.stagingBytes : 0;
    if (stageBytes(problem, facts, microBatch, i, 0) - staging > memory)
      return false;
  }
  return true;
}

/// The least of a section, of all variants that fit in some number of stages: the work of a step, and the way of each
/// sample.
struct Least {
  double work = std::numeric_limits<double>::infinity();
  CriticalPaths::Times times;
};

Least leastOf(const SearchProblem &problem, const Cuts &cuts, uint32_t section) {
  Least least;
  auto atoms = static_cast<uint32_t>(problem.model.sections[section].classOf.size());
  std::vector<uint32_t> stageCounts = cuts.stageCounts(section);
  for (const RecomputeChoice &recompute : recomputeChoices(problem, section))
    for (uint32_t m = 0; m < problem.model.microBatches.size(); ++m) {
      auto fits = [&](uint32_t stages) { return mayFit(problem, cuts.of(section, recompute, stages), m); };
      if (problem.pins[section].microBatch.value_or(m) != m || std::ranges::none_of(stageCounts, fits))
        continue;
      least.work = std::min(least.work, cuts.work().work(section, recompute, m, 0, atoms));
      if (!problem.model.sections[section].trains)
        continue;
      const CriticalPaths::Times &own = cuts.criticalPaths().of(section, recompute, m);
      if (least.times.empty())
        least.times = own;
      std::ranges::transform(least.times, own, least.times.begin(), [](double a, double b) { return std::min(a, b); });
    }
  return least;
}

} // namespace

double lowerBoundSeconds(const SearchProblem &problem, const Cuts &cuts) {
  double work = 0;
  std::vector<Least> least(problem.pins.size());
  std::vector<const CriticalPaths::Times *> times(problem.pins.size(), nullptr);
  for (uint32_t s = 0; s < problem.pins.size(); ++s) {
    least[s] = leastOf(problem, cuts, s);
    work += least[s].work;
    if (!least[s].times.empty())
      times[s] = &least[s].times;
  }
  return std::max(work / problem.machine.devices, cuts.criticalPaths().longest(times)) * kRounding;
}

} // namespace maestro::planner
