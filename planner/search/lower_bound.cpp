#include "planner/search/lower_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace maestro::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// A bound is rounded down by this, since seconds are added up in other orders than schedules do.
constexpr double kRounding = 1 - 1e-9;

/// One cut with one size of micro-batches.
struct BoundedOption {
  RecomputeChoice recompute = {};
  uint32_t microBatch = 0, stages = 1;
  double work = 0;          ///< Of all stages.
  double longest = 0;       ///< Of the busiest.
  double around = 0;        ///< What a sample takes at least in the stages before it, there and back.
  double update = 0;        ///< Without reduction, of the stage that takes longest.
  double gradientBytes = 0; ///< Of the stage that reduces most.
};

/// Of norm and optimizer that move so many bytes, on the kind of device that takes least.
double leastUpdateSeconds(const cost_models::Machine &machine, uint64_t bytes) {
  double least = kNever;
  for (const cost_models::DeviceModel &kind : machine.kinds)
    least = std::min(least, static_cast<double>(bytes) / kind.rates.stream.value * kind.rates.update);
  return least;
}

/// No algorithm adds up over r devices faster, wherever they are: each sends and receives all but its own share at the
/// innermost link, and a group of its share over the next one out. Of one process: gradients staged, added and fetched.
double leastReductionSeconds(const cost_models::Machine &machine, double bytes, double replicas) {
  if (replicas < 2)
    return 0;
  if (machine.links.empty()) {
    double fastest = 0;
    for (const cost_models::DeviceModel &kind : machine.kinds)
      fastest = std::max(fastest, kind.rates.stream.value);
    return 5 * bytes / fastest;
  }
  double seconds = 0, inside = 1;
  for (const cost_models::LinkLevel &level : machine.links) {
    double here = std::min(std::ceil(replicas / inside), static_cast<double>(level.spans) / inside);
    if (here > 1)
      seconds = std::max(seconds, 2 * (here - 1) / here * bytes / inside / level.bandwidth.value);
    inside = level.spans;
    if (replicas <= inside)
      break;
  }
  return seconds;
}

class Bound {
public:
  Bound(const SearchProblem &problem, const Cuts &cuts) : problem(problem), cuts(cuts) {
    for (const cost_models::DeviceModel &kind : problem.machine.kinds)
      memory = std::max(memory, kind.memoryBytes);
    for (uint32_t s = 0; s < problem.pins.size(); ++s)
      collect(s);
  }

  double seconds() const {
    double all = 0;
    for (uint32_t s = 0; s < options.size(); ++s)
      all += cuts.work().least(s);
    double low = all / problem.machine.devices * kRounding, high = std::max(low, 1e-9);
    for (; !isPossible(high); high *= 2)
      if (low = high; high > 1e12)
        return low;
    for (int halving = 0; halving < 40; ++halving) {
      double middle = (low + high) / 2;
      (isPossible(middle) ? high : low) = middle;
    }
    return std::max(low, longestPath()) * kRounding;
  }

private:
  void collect(uint32_t section) {
    std::vector<BoundedOption> &own = options.emplace_back();
    for (const RecomputeChoice &recompute : recomputeChoices(problem, section))
      for (uint32_t stages : cuts.stageCounts(section)) {
        const CutFacts &facts = cuts.of(section, recompute, stages);
        for (uint32_t m = 0; m < facts.at.size(); ++m)
          if (problem.pins[section].microBatch.value_or(m) == m && mayFit(facts, m))
            own.push_back(optionOf(section, facts, m));
      }
  }

  /// With nothing beside it: one replica stages no gradients.
  bool mayFit(const CutFacts &facts, uint32_t microBatch) const {
    for (size_t i = 0; i < facts.stages.size(); ++i) {
      uint64_t staging = facts.stages[i].parameters.gradients > 0 ? problem.machine.stagingBytes : 0;
      if (stageBytes(problem, facts, microBatch, i, 0) - staging > memory)
        return false;
    }
    return true;
  }

  BoundedOption optionOf(uint32_t section, const CutFacts &facts, uint32_t microBatch) const {
    const CutFacts::Size &size = facts.at[microBatch];
    BoundedOption option{facts.cut.recompute, microBatch, static_cast<uint32_t>(size.work.size())};
    option.work = std::accumulate(size.work.begin(), size.work.end(), 0.0);
    option.longest = size.longest;
    auto busiest = static_cast<size_t>(std::max_element(size.work.begin(), size.work.end()) - size.work.begin());
    if (problem.model.sections[section].trains) // Behind it nothing need follow.
      option.around =
          cuts.work().oneSample(section, facts.cut.recompute, microBatch, 0,
                                facts.cut.firstAtom(busiest, problem.model.sections[section].classOf.size()));
    for (const cost_models::StageModel &stage : facts.stages) {
      option.update = std::max(option.update, leastUpdateSeconds(problem.machine, stage.parameters.moved()));
      option.gradientBytes = std::max(option.gradientBytes, static_cast<double>(stage.parameters.gradients));
    }
    return option;
  }

  /// Of a sample through all sections that train, in what fits; where nothing runs ahead, updates follow it.
  double longestPath() const {
    const CriticalPaths &paths = cuts.criticalPaths();
    std::vector<CriticalPaths::Times> least(options.size());
    std::vector<const CriticalPaths::Times *> bySection(options.size(), nullptr);
    double update = 0;
    bool allTrain = true;
    for (uint32_t s = 0; s < options.size(); ++s) {
      allTrain &= problem.model.sections[s].trains;
      if (!problem.model.sections[s].trains || options[s].empty())
        continue;
      double fastest = kNever;
      std::set<std::pair<RecomputeChoice, uint32_t>> kinds;
      for (const BoundedOption &option : options[s]) {
        kinds.insert({option.recompute, option.microBatch});
        fastest = std::min(fastest, option.update);
      }
      for (auto [recompute, microBatch] : kinds) {
        const CriticalPaths::Times &own = paths.of(s, recompute, microBatch);
        if (least[s].empty())
          least[s] = own;
        for (size_t row = 0; row < own.size(); ++row)
          least[s][row] = std::min(least[s][row], own[row]);
      }
      bySection[s] = &least[s];
      update = std::max(update, fastest);
    }
    return paths.longest(bySection) + (allTrain ? update : 0);
  }

  /// The update of a section with the fewest replicas that it needs; kNever where there are not enough devices.
  double updateWithin(uint32_t section, const BoundedOption &option, double seconds) const {
    bool trains = problem.model.sections[section].trains;
    double update = trains ? option.update : 0, replicas = problem.pins[section].dataParallel.value_or(1);
    for (int round = 0; round < 2; ++round) {
      double left = seconds - update - option.around;
      if (left <= 0)
        return kNever;
      replicas = std::max(replicas, std::ceil(option.longest / left * kRounding));
      if (replicas * option.stages > problem.machine.devices && replicas > 1)
        return kNever;
      update = trains ? option.update + leastReductionSeconds(problem.machine, option.gradientBytes, replicas) : 0;
    }
    return update;
  }

  /// By section: (update, work), ascending updates, less and less work. Empty where a section has none.
  using Choices = std::vector<std::vector<std::pair<double, double>>>;
  Choices choicesWithin(double seconds) const {
    Choices choices;
    for (uint32_t s = 0; s < options.size(); ++s) {
      auto &own = choices.emplace_back();
      for (const BoundedOption &option : options[s])
        if (double update = updateWithin(s, option, seconds); update < kNever)
          own.push_back({update, option.work});
      if (own.empty())
        return {};
      std::sort(own.begin(), own.end());
      for (size_t i = 1; i < own.size(); ++i)
        own[i].second = std::min(own[i].second, own[i - 1].second);
    }
    return choices;
  }

  /// With no update above this one.
  bool fitsDevices(const Choices &choices, double update, double seconds) const {
    double all = 0, training = 0;
    for (uint32_t s = 0; s < choices.size(); ++s) {
      auto behind = std::upper_bound(choices[s].begin(), choices[s].end(), std::pair(update, kNever));
      if (behind == choices[s].begin())
        return false;
      all += std::prev(behind)->second;
      training += problem.model.sections[s].trains ? std::prev(behind)->second : 0;
    }
    return all + update * training / (seconds - update) <= problem.machine.devices * seconds;
  }

  bool isPossible(double seconds) const {
    Choices choices = choicesWithin(seconds);
    std::set<double> updates{0};
    for (const auto &own : choices)
      for (const auto &[update, work] : own)
        updates.insert(update);
    return !choices.empty() && std::any_of(updates.begin(), updates.end(), [&](double update) {
      return update < seconds && fitsDevices(choices, update, seconds);
    });
  }

  const SearchProblem &problem;
  const Cuts &cuts;
  uint64_t memory = 0; ///< Of the kind of device that has most.
  std::vector<std::vector<BoundedOption>> options;
};

} // namespace

double lowerBoundSeconds(const SearchProblem &problem, const Cuts &cuts) { return Bound(problem, cuts).seconds(); }

} // namespace maestro::planner
