// The device of a rank: what kind the plan names, whether this machine has it, and how it is made.
#pragma once

#include "executor/device/device.h"
#include "plan/plan.h"

#include <string>

namespace maestro::executor {

/// InvalidInput for a plan over devices that this executor does not know, or over several kinds; Unavailable where what
/// drives the kind is missing. Initialises nothing, so that the process may still fork.
Status checkDeviceKind(const plan::Plan &plan, const std::string &path);

struct RankDeviceOptions : DeviceOptions {
  bool runsKernels = true;
  int lateSeed = -1; ///< ≥ 0: a CPU device that completes late and hides its memory.
  uint32_t lateDelayUs = 1000;
  std::vector<std::span<std::byte>> shared; ///< Mappings in which ranks meet.
};

/// With `options.rank`. The process may not fork afterwards.
Result<std::unique_ptr<Device>> createRankDevice(const plan::Plan &plan, const RankDeviceOptions &options);

} // namespace maestro::executor
