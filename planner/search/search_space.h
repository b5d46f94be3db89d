// The layouts that an exhaustive search looks at, and bounds of what they can reach.
//
//   placement: sections form groups, each group has devices of its own; or as pinned
//   option:    of one section in its placement: cut, replicas and size of micro-batches
#pragma once

#include "planner/search/cuts.h"

namespace maestro::planner {

/// The devices of each section: its stations take them in turn.
using Placement = std::vector<std::vector<uint32_t>>;

/// Layouts that share a placement: any combination of these options, one a section.
struct Family {
  Placement placement;
  /// What to choose from, by section. Empty: all that pins and devices leave.
  std::vector<std::vector<LayoutOption>> only;
};

/// Every placement: sections set out in groups on disjoint ranges of devices, in every way, with any number of devices
/// each; pinned sections where they are pinned. Nothing where there are more than `most`.
std::vector<Placement> enumeratePlacements(const SearchProblem &problem, size_t most = SIZE_MAX);

/// `devices` in turn: replica by replica, a device a stage; or stage by stage, a device a replica, so that replicas,
/// which add up gradients, are near each other.
LayoutOption placed(const SectionCut &cut, uint32_t microBatch, size_t replicas, const std::vector<uint32_t> &devices,
                    bool byStage = false);
/// Whether a section of several stages and replicas is placed stage by stage.
bool isByStage(const LayoutOption &option);

/// The options of a section in a family, in order of preference among equals: fewest stages, most replicas and largest
/// micro-batches first.
std::vector<LayoutOption> optionsOf(const SearchProblem &problem, const CutTable &cuts, const Family &family,
                                    uint32_t section);

/// All sections replicated over all devices (or those pinned).
std::vector<Family> dataParallelFamilies(const SearchProblem &problem, const CutTable &cuts);
/// The same replicas, stages, recompute and micro-batches for all, on all devices.
std::vector<Family> oneLayoutFamilies(const SearchProblem &problem, const CutTable &cuts);
/// Devices in proportion to sections' work, without sharing where there are enough.
Placement staticSplit(const SearchProblem &problem, const WorkTable &work);
std::vector<Family> staticSplitFamilies(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work);

/// Work that no schedule avoids, in seconds of the mean step.
class WorkBounds {
public:
  WorkBounds(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work);

  /// At least this long takes any layout of the family whose first sections have these options.
  double bound(const Family &family, const Layout &chosen) const;
  /// The same for a whole layout whose tasks alone take at least `tasksSeconds` where steps wait for each other.
  double bound(const Family &family, const Layout &layout, double tasksSeconds) const;

private:
  /// Of the device that reduces and updates longest.
  double updateSeconds(const Layout &chosen) const;
  std::vector<uint8_t> waiting(const Layout &chosen) const;

  const SearchProblem &problem;
  const CutTable &cuts;
  const WorkTable &work;
};

} // namespace maestro::planner
