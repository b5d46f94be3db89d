// Before a plan is written: with which choices the scheduler should begin in each of its steps. A step's own schedule
// may cost a hundredth of the step; planning has thousands of times as long, and layouts that are hard to schedule are
// so with other samples, too.
#pragma once

#include "wavefront/problem.h"

#include <span>
#include <vector>

namespace maestro::cost_models {

struct TuningLimits {
  int64_t budgetNs = 0;    ///< As wavefront::Trial counts; three times that while all is far from the bounds.
  uint64_t fixedParts = 0; ///< Parts of choices that keep their defaults (wavefront::Traits).
};

/// The choices to write into a plan as hints, at most wavefront::kMaxHints: the one with which these steps together end
/// first, those with which some of them end sooner, as other steps may, and the one that suits the first best. None
/// where the usual starts are within a percent of the steps' bounds.
///
/// The steps are of one plan: their problems differ in samples only. The first half is searched on, beginning with the
/// problems' hints; the others tell luck from merit. Requires wavefront::check() of each, and one at least. The same
/// steps always have the same answer.
std::vector<wavefront::Choice> tune(std::span<const wavefront::Problem> steps, const TuningLimits &limits);

} // namespace maestro::cost_models
