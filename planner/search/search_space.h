// The layouts that a search looks at, and bounds of what they can reach.
//
//   placement: sections form groups, each group has devices of its own; or as pinned
//   option:    of one section in its placement: replicas and size of micro-batches
#pragma once

#include "planner/search/search_problem.h"

namespace maestro::planner {

/// The devices of each section: its stations take them in turn.
using Placement = std::vector<std::vector<uint32_t>>;

/// Layouts of one model that share a placement: any combination of these options, one a section.
struct Family {
  uint32_t model = 0;
  Placement placement;
  /// Replicas and micro-batches to choose from, by section. Empty: all that pins and devices leave.
  std::vector<std::vector<SectionChoice>> only;
};

/// Every placement: sections set out in groups on disjoint ranges of devices, in every way, with any number of devices each;
/// pinned sections where they are pinned.
std::vector<Placement> enumeratePlacements(const SearchProblem &problem);

/// All families: placements times models that pins of stages leave.
std::vector<Family> allFamilies(const SearchProblem &problem);
/// All sections replicated over all devices (or those pinned).
std::vector<Family> dataParallelFamilies(const SearchProblem &problem);
/// The same replicas, stages and micro-batches for all, on all devices.
std::vector<Family> oneLayoutFamilies(const SearchProblem &problem);
/// Devices in proportion to sections' work, without sharing where there are enough.
std::vector<Family> staticSplitFamilies(const SearchProblem &problem);

/// The choices of a section in a family, in order of preference among equals: most replicas and largest micro-batches first.
std::vector<SectionChoice> optionsOf(const SearchProblem &problem, const Family &family, uint32_t section);

/// Work that no schedule avoids, in seconds of the mean step.
class WorkBounds {
public:
  explicit WorkBounds(const SearchProblem &problem);

  /// At least this long takes any layout of the family whose first sections have these choices.
  double bound(const Family &family, const CompoundLayout &chosen) const;
  /// The same for a whole layout whose tasks alone take at least `tasksSeconds`.
  double bound(const Family &family, const CompoundLayout &layout, double tasksSeconds) const;
  /// The work of a section with its best size of micro-batches.
  double leastWork(uint32_t model, uint32_t section) const;

private:
  /// Of the device that reduces and updates longest.
  double updateSeconds(uint32_t model, const CompoundLayout &chosen) const;
  double stageWork(const CompoundModel &model, uint32_t section, const cost_models::StageCosts &costs, int64_t microBatch) const;
  const std::vector<double> &work(uint32_t model, uint32_t section, uint32_t microBatch) const;

  const SearchProblem &problem;
  std::vector<std::vector<std::vector<std::vector<double>>>> works; ///< model, section, micro-batch: by stage.
  std::vector<std::vector<uint32_t>> leastAt;                        ///< model, section: the micro-batch of least work.
  std::vector<std::vector<std::vector<double>>> leastStage;          ///< model, section: by stage, over micro-batches.
  std::vector<uint8_t> beforeGradients; ///< By section: all its tasks end before the step's gradients are known.
};

/// Whether every device holds what the layout puts there.
bool fits(const SearchProblem &problem, uint32_t model, const CompoundLayout &layout);

} // namespace maestro::planner
