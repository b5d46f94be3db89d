// What a layout's memory is spent on: the recompute that takes least of what fits, then split backward tasks.
#pragma once

#include "planner/search/candidates.h"
#include "planner/search/cuts.h"

#include <optional>
#include <vector>

namespace maestro::planner {

/// What to spend memory on first.
struct MemoryOrder {
  std::vector<uint32_t> sections; ///< Their recompute gets lighter in this order.
  bool splitsFirst = false;       ///< Split backward tasks come before all of them.
};
/// Sections, that with most work first.
MemoryOrder usualOrder(const SearchProblem &problem, const Cuts &cuts);

/// The layout with the lightest recompute that fits, section by section, and with as many split stages as fit in the
/// sections that have some. Where not even the heaviest recompute fits, micro-batches get smaller. Pinned decisions
/// stay. Nothing where nothing fits.
std::optional<Layout> fillMemory(const SearchProblem &problem, const Cuts &cuts, Candidates &candidates, Layout layout,
                                 const MemoryOrder &order);

} // namespace maestro::planner
