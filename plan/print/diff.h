// The first part of diff. Internal to plan/print.
#pragma once

#include "plan/print/formats.h"

namespace maestro::plan {

/// Predicted step, devices, memory; what differs by section and edge. Times may be null.
std::string diffChoices(const Plan &before, const Plan &after, const StepTimes *beforeTimes,
                        const StepTimes *afterTimes);

} // namespace maestro::plan
