// Whether this executor, on this machine, can do what a plan asks for.
#pragma once

#include "base/status.h"
#include "plan/plan.h"

#include <string>

namespace maestro::executor {

/// InvalidInput, naming the plan's file, value and limit, for devices, memory and layouts that are
/// not here. Warns of more devices than cores.
Status checkMachine(const plan::Plan &plan, const std::string &path);

} // namespace maestro::executor
