// The layouts that every answer is compared with. Each baseline is the best of its family that the search finds.
#pragma once

#include "planner/search/groupings.h"

#include <string_view>
#include <vector>

namespace maestro::planner {

/// Layouts that a baseline may have, best estimate first: those to begin with.
using Baseline = std::vector<Layout> (*)(const SearchProblem &problem, const Cuts &cuts, const Estimator &estimator);

/// All sections replicated over all devices, or those pinned.
std::vector<Layout> allDataParallel(const SearchProblem &problem, const Cuts &cuts, const Estimator &estimator);
/// The same replicas, stages, kind of recompute and micro-batches for all, on all devices.
std::vector<Layout> oneLayoutForAll(const SearchProblem &problem, const Cuts &cuts, const Estimator &estimator);
/// Devices in proportion to sections' work, without sharing where there are enough.
std::vector<Layout> staticSplit(const SearchProblem &problem, const Cuts &cuts, const Estimator &estimator);

/// What of a layout's neighbourhood a baseline may look at.
struct Family {
  bool climbs = true;      ///< Any of it.
  bool keepsGroups = true; ///< Devices stay with their groups.
  uint32_t maxStages = kMaxStages;
};

struct NamedBaseline {
  std::string_view name;
  Baseline layouts;
  Family family;
  wavefront::Order order; ///< Of its samples.
};

inline constexpr NamedBaseline kBaselines[] = {
    {"all data parallel", allDataParallel, {true, true, 1}, wavefront::Order::Wavefront},
    {"one layout for all", oneLayoutForAll, {false, true, kMaxStages}, wavefront::Order::Wavefront},
    {"static split", staticSplit, {true, true, kMaxStages}, wavefront::Order::FileOrder},
};

} // namespace maestro::planner
