// What the process of an executable needs beside the executable's regions, from its calls at the dims' bounds.
#pragma once

#include "plan/plan_generated.h"

#include <cstdint>
#include <span>

namespace maestro::planner {

/// `values` are Plan.exprs at the bounds.
uint64_t hostBytes(const plan::fb::PlanT &plan, const plan::fb::ExecutableT &executable, std::span<const int64_t> values,
                   int threads);

} // namespace maestro::planner
