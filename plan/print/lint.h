// The two parts of lint. Internal to plan/print.
#pragma once

#include "plan/print/formats.h"

#include <vector>

namespace maestro::plan {

/// Idle devices, padding, overhead, edges, memory, stages. Without `times`: without the first two.
void lintCosts(const Plan &plan, const StepTimes *times, std::vector<Finding> &findings);

} // namespace maestro::plan
