// Whether this executor, on this machine, can do what a plan asks for.
#pragma once

#include "base/status.h"
#include "plan/plan.h"
#include "transport/rank_range.h"

#include <string>

namespace maestro::executor {

/// InvalidInput, naming the plan's file, value and limit, for devices and layouts that are not here. Warns of more
/// devices than cores.
Status checkMachine(const plan::Plan &plan, const std::string &path);
/// InvalidInput where these ranks need more memory than this machine has.
Status checkMemory(const plan::Plan &plan, const std::string &path, transport::RankRange ranks);

} // namespace maestro::executor
