#include "planner/search/space_bound.h"

#include "planner/search/family_bound.h"
#include "planner/search/option_bounds.h"
#include "planner/search/ways.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace maestro::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// One cut with one size of micro-batches.
struct Option {
  RecomputeChoice recompute = {};
  uint32_t microBatch = 0;
  double work = 0;    ///< Of all stages.
  double longest = 0; ///< Of the busiest.
  double around = 0;  ///< What a sample takes at least in the other stages.
  uint32_t stages = 1;
  double update = 0;        ///< Without reduction, of the busiest stage.
  double gradientBytes = 0; ///< Of the stage that reduces most.
};

class Bound {
public:
  Bound(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work) : problem(problem), work(work) {
    for (uint32_t s = 0; s < problem.pins.size(); ++s)
      collect(s, cuts.of(s));
  }

  double run() const {
    double all = 0, low = 0, high = 1e-9;
    for (uint32_t s = 0; s < options.size(); ++s)
      all += work.least(s);
    low = all / problem.machine.devices * (1 - 1e-9);
    for (high = std::max(low, 1e-9); !isPossible(high); high *= 2) {
      low = high;
      if (high > 1e12)
        return low;
    }
    for (int halving = 0; halving < 40; ++halving) {
      double middle = (low + high) / 2;
      (isPossible(middle) ? high : low) = middle;
    }
    return std::max(low, longestWay() * (1 - 1e-9));
  }

private:
  void collect(uint32_t s, const std::vector<CutFacts> &list) {
    std::vector<Option> &own = options.emplace_back();
    const SearchPins &pins = problem.pins[s];
    uint64_t memory = 0;
    for (const cost_models::DeviceModel &kind : problem.machine.kinds)
      memory = std::max(memory, kind.memoryBytes);
    auto atoms = static_cast<uint32_t>(problem.model.sections[s].classOf.size());
    for (const CutFacts &facts : list)
      for (uint32_t m = 0; m < facts.work.size(); ++m) {
        if (pins.microBatch && *pins.microBatch != m)
          continue;
        Option option;
        option.recompute = facts.cut.recompute;
        option.microBatch = m;
        const std::vector<double> &stages = facts.work[m];
        option.stages = static_cast<uint32_t>(stages.size());
        option.work = std::accumulate(stages.begin(), stages.end(), 0.0);
        auto busiest = static_cast<size_t>(std::max_element(stages.begin(), stages.end()) - stages.begin());
        option.longest = stages[busiest];
        uint32_t first = busiest == 0 ? 0 : facts.cut.firstAtoms[busiest - 1];
        if (problem.model.sections[s].trains) // There and back again; behind it nothing need follow.
          option.around = work.oneSample(s, facts.cut.recompute, m, 0, std::min(first, atoms));
        bool fits = true;
        for (size_t i = 0; i < facts.stages.size(); ++i) {
          const cost_models::StageModel &stage = facts.stages[i];
          fits &= stageBytes(problem, s, facts, m, i, 0) <=
                  memory + (stage.gradientBytes > 0 ? problem.machine.stagingBytes : 0); // One replica stages nothing.
          option.update =
              std::max(option.update, leastUpdateSeconds(problem.machine, static_cast<double>(stage.updateBytes)));
          option.gradientBytes = std::max(option.gradientBytes, static_cast<double>(stage.gradientBytes));
        }
        if (fits)
          own.push_back(option);
      }
  }

  /// Of a sample through all sections that train, in what fits; where nothing runs ahead updates follow it.
  double longestWay() const {
    Ways ways(problem);
    std::vector<Ways::Times> least(options.size());
    std::vector<const Ways::Times *> bySection(options.size(), nullptr);
    double update = 0;
    bool allTrain = true;
    for (uint32_t s = 0; s < options.size(); ++s) {
      allTrain &= problem.model.sections[s].trains;
      if (!problem.model.sections[s].trains || options[s].empty())
        continue;
      double fastest = kNever;
      std::set<std::pair<RecomputeChoice, uint32_t>> kinds;
      for (const Option &option : options[s]) {
        kinds.insert({option.recompute, option.microBatch});
        fastest = std::min(fastest, option.update);
      }
      for (auto [recompute, microBatch] : kinds) {
        const Ways::Times &own = ways.of(s, recompute, microBatch);
        if (least[s].empty())
          least[s] = own;
        for (size_t row = 0; row < own.size(); ++row)
          least[s][row] = std::min(least[s][row], own[row]);
      }
      bySection[s] = &least[s];
      update = std::max(update, fastest);
    }
    return ways.longest(bySection) + (allTrain ? update : 0);
  }

  /// The fewest replicas that a section needs, and its update with so many; kNever where there are not enough devices.
  double updateWithin(uint32_t s, const Option &option, double seconds) const {
    bool trains = problem.model.sections[s].trains;
    double update = trains ? option.update : 0, replicas = problem.pins[s].dataParallel.value_or(1);
    for (int round = 0; round < 2; ++round) {
      double left = seconds - update - option.around;
      if (left <= 0)
        return kNever;
      replicas = std::max(replicas, std::ceil(option.longest / left * (1 - 1e-9)));
      if (replicas * option.stages > problem.machine.devices && replicas > 1)
        return kNever;
      update = trains ? option.update + leastReductionSeconds(problem.machine, option.gradientBytes, replicas) : 0;
    }
    return update;
  }

  bool isPossible(double seconds) const {
    std::vector<std::vector<std::pair<double, double>>>
        choices; // By section: (update, work), ascending updates, less and less work.
    std::vector<double> updates{0};
    for (uint32_t s = 0; s < options.size(); ++s) {
      auto &own = choices.emplace_back();
      for (const Option &option : options[s])
        if (double update = updateWithin(s, option, seconds); update < kNever)
          own.push_back({update, option.work});
      if (own.empty())
        return false;
      std::sort(own.begin(), own.end());
      for (size_t i = 1; i < own.size(); ++i)
        own[i].second = std::min(own[i].second, own[i - 1].second);
      for (const auto &[update, work] : own)
        updates.push_back(update);
    }
    double devices = problem.machine.devices;
    for (double update : updates) {
      double all = 0, training = 0;
      bool possible = update < seconds;
      for (uint32_t s = 0; possible && s < choices.size(); ++s) {
        auto behind = std::upper_bound(choices[s].begin(), choices[s].end(), std::pair(update, kNever));
        possible = behind != choices[s].begin();
        if (!possible)
          break;
        double work = std::prev(behind)->second;
        all += work;
        training += problem.model.sections[s].trains ? work : 0;
      }
      if (possible && all + update * training / (seconds - update) <= devices * seconds)
        return true;
    }
    return false;
  }

  const SearchProblem &problem;
  const WorkTable &work;
  std::vector<std::vector<Option>> options;
};

} // namespace

double spaceBound(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work, double found) {
  double bound = Bound(problem, cuts, work).run();
  return bound < found ? familyBound(problem, cuts, work, bound, found) : found;
}

} // namespace maestro::planner
