// Where the search begins: every way to group sections on devices of their own, with the devices that suit it.
#pragma once

#include "planner/search/estimator.h"

#include <vector>

namespace maestro::planner {

/// The best layouts by estimate, best first: of each grouping at most so many that together there are no more than
/// `most`, or one. Each section is in one group; pinned ones have the groups that pins say. For every grouping, and
/// every number of stages of the section with most work: the least time for which the fewest devices that each group
/// needs are no more than there are. None where no estimate fits.
std::vector<Layout> bestOfGroupings(const SearchProblem &problem, const Cuts &cuts, const Estimator &estimator,
                                    const OptionLimits &limits, size_t most);

/// Groups of the sections that pins give devices, and the others: these share what is left, or everything where nothing
/// is.
struct PinnedGroups {
  std::vector<DeviceGroup> groups;
  std::vector<uint32_t> open; ///< Sections in no group,
  uint32_t devices = 0;       ///< and the devices for them.
};
PinnedGroups pinnedGroups(const SearchProblem &problem);

/// Gives the sections of a group their fastest options together; false where nothing fits.
bool chooseOptions(const Estimator &estimator, Layout &layout, size_t group, const OptionLimits &limits = {});

/// Hands out devices stage by stage, or replica by replica, whichever way the estimate is shorter; returns it.
double placeFaster(const Estimator &estimator, Layout &layout);

/// How finely devices are shared out: one by one up to 64, else sixty-fourths of all.
uint32_t deviceStride(const cost_models::Machine &machine);

} // namespace maestro::planner
