// What one section's options take and hold at least: a cut, a size of micro-batches and a number of replicas, whatever
// else runs.
#pragma once

#include "planner/search/cuts.h"

#include <array>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace maestro::planner {

/// Seconds of a norm and an optimizer that move so many bytes, of the kind of device that takes least.
double leastUpdateSeconds(const cost_models::Machine &machine, double bytes);
/// No algorithm adds up over r devices faster, wherever they are: each sends and receives all but its own share at the
/// innermost link, and a group of its share over the next one out. Of one process: gradients staged, added and fetched.
double leastReductionSeconds(const cost_models::Machine &machine, double bytes, double replicas);

struct BoundedOption {
  uint32_t cut = 0, microBatch = 0, replicas = 1; ///< CutTable.of(section), AtomicModel.microBatches
  uint32_t stages = 1, devices = 1;
  double work = 0;          ///< Seconds of its devices together.
  double tasks = 0;         ///< Of a step, from the section's first task to its last.
  bool isScheduled = false; ///< `tasks` is the scheduler's bound, too.
  /// Behind the step's last task: of the stage whose reduction and update take longest, and of all devices together;
  /// with devices replica by replica, and stage by stage (search_space.h).
  std::array<double, 2> update = {}, updates = {};
};

class OptionBounds {
public:
  OptionBounds(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work);

  /// All options of a section that pins leave, whose stages fit a device each, and that take no more than `seconds`;
  /// ascending in devices.
  std::vector<BoundedOption> options(uint32_t section, double seconds);

  /// Bytes of a stage at least, where `held` samples (below) are on the way in the sections behind this one.
  uint64_t bytes(uint32_t section, const BoundedOption &option, size_t stage, uint64_t held) const;
  /// What of them a device has once for all that it runs.
  uint64_t processBytes(uint32_t section, const BoundedOption &option, size_t stage) const;
  /// Samples that a section holds or has waiting of those for whose gradients `producer` waits; 0: it waits for none.
  uint64_t held(uint32_t producer, uint32_t section, const BoundedOption &option) const;
  /// Of a stage's work, what it has in common with the section's others (WorkTable.alike).
  double alikeWork(uint32_t section, const BoundedOption &option, size_t stage) const;
  /// Seconds of each device of a stage behind its last task, by stage; as BoundedOption.update has devices.
  const std::vector<double> &stageUpdates(uint32_t section, const BoundedOption &option, bool byStage) {
    return updates(section, option.cut, option.replicas, byStage).byStage;
  }
  double stageWork(uint32_t section, const BoundedOption &option, size_t stage) const {
    return facts(section, option).work[option.microBatch][stage];
  }

private:
  const CutFacts &facts(uint32_t section, const BoundedOption &option) const { return cuts.of(section)[option.cut]; }
  BoundedOption make(uint32_t section, uint32_t cut, uint32_t microBatch, uint32_t replicas);
  struct Updates {
    double longest = 0, all = 0; ///< Of stages; of all devices together.
    std::vector<double> byStage = {};
    void add(double seconds, uint32_t replicas);
  };
  Updates leastUpdates(uint32_t section, uint32_t cut, uint32_t replicas) const;
  Updates updatesFrom(uint32_t section, uint32_t cut, uint32_t replicas, bool byStage, uint32_t first) const;
  const Updates &updates(uint32_t section, uint32_t cut, uint32_t replicas, bool byStage);

  const SearchProblem &problem;
  const CutTable &cuts;
  const WorkTable &work;
  uint64_t mostMemory = 0;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, bool>, Updates> known; ///< section, cut, replicas, by stage
};

} // namespace maestro::planner
