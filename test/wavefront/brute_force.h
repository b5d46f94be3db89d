// The optimum of a tiny problem, by trying everything: every grouping, every replica, every order of every device.
#pragma once

#include "wavefront/problem.h"

namespace maestro::wavefront {

/// The shortest makespan below `knownNs`, or `knownNs` if there is none. Rings must be as deep as the batch has
/// samples.
int64_t bruteForce(const Problem &problem, int64_t knownNs);

/// A few samples, up to three sections, two stages and two replicas; costs, capacities, modalities and places vary.
Problem tinyProblem(uint64_t seed);

/// The same with rows of samples as its lengths allow: each section bounds its padded tokens, and samples hardly.
Problem withTinyAreas(Problem problem, uint64_t seed);

} // namespace maestro::wavefront
