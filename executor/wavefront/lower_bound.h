// What no schedule of a problem can beat.
#pragma once

#include "executor/wavefront/problem.h"

namespace maestro::wavefront {

/// Whatever the micro-batches, replicas and orders. Requires check(problem).
int64_t lowerBound(const Problem &problem);

} // namespace maestro::wavefront
