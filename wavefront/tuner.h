// Before a plan is written: with which recipes the scheduler should begin in each of its steps. A step's own schedule
// may cost a hundredth of the step; planning has thousands of times as long, and layouts that are hard to schedule are
// so with other samples, too.
#pragma once

#include "wavefront/problem.h"

#include <span>
#include <vector>

namespace maestro::wavefront {

/// The choice with which these steps together end first, of those that are found within about `budgetNs`, counted as
/// Trial does or `mostTrials` (three times that while it is more than a tenth above the steps' bounds); then those with
/// which some end sooner, as other steps may, and the one with which the first ends soonest. It looks near the
/// problems' hints, too. The steps are of one plan: their problems differ in samples only. The first half is searched
/// on, the others tell luck from merit. None where the usual starts are within a percent of the steps' bounds. Requires
/// check() of each, and one at least. Seeded by a constant: the same steps always have the same answer.
std::vector<Choice> tune(std::span<const Problem> steps, int64_t budgetNs, int64_t mostTrials = INT64_MAX / 3);

} // namespace maestro::wavefront
