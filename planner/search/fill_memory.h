// What a layout's memory is spent on: the recompute that takes least of what fits, then split backward tasks.
#pragma once

#include "planner/search/candidates.h"
#include "planner/search/cuts.h"

#include <optional>

namespace maestro::planner {

/// The layout with the lightest recompute that fits, section by section, those with most work first, and with as many
/// split stages as fit in the sections that have some. Where not even the heaviest recompute fits, micro-batches get
/// smaller. Pinned decisions stay. Nothing where nothing fits.
std::optional<Layout> fillMemory(const SearchProblem &problem, const Cuts &cuts, Candidates &candidates, Layout layout);

} // namespace maestro::planner
