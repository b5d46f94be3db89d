// A large problem as one of its equal parts: where every section has g times the replicas of a part, on devices that no
// other part uses, one part with one g-th of the samples stands for all: the part that has the longest sample, since a
// step takes as long as its longest part. What the parts could gain by exchanging samples is left out.
#pragma once

#include "wavefront/problem.h"

namespace maestro::cost_models {

/// The largest number of equal parts, of at most `most`, into which a problem's stations fall; 1 where they do not.
/// Parts are consecutive replicas of all sections; their devices are disjoint and shared alike. Samples do not matter.
uint32_t equalParts(const wavefront::Problem &problem, uint32_t most);

/// The first of `parts` equal parts, devices renumbered in order of first use. Of its samples, one of each `parts` that
/// take about as long: the longest of all, the one `parts` places behind it, and so on (at least one). Costs stay as
/// they are.
wavefront::Problem firstPart(const wavefront::Problem &problem, uint32_t parts);

} // namespace maestro::cost_models
