// The device of a rank: what kind the plan names, whether this machine has it, and how it is made.
#pragma once

#include "executor/device/device.h"
#include "executor/device/device_segment.h"
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
  std::vector<std::span<std::byte>> shared, bulk; ///< Memory in which ranks meet; that devices alone touch.
};

/// With `options.rank`. The process may not fork afterwards.
Result<std::unique_ptr<Device>> createRankDevice(const plan::Plan &plan, const RankDeviceOptions &options);

/// Whether devices of the plan's kind have memory and processors of their own, not shares of the machine's.
bool haveOwnMemory(const plan::Plan &plan);
/// Of the rank's device.
Result<std::unique_ptr<DeviceSegment>> createDeviceSegment(const plan::Plan &plan, uint32_t rank, uint64_t bytes);
/// Another process's, for the device of a rank that is here.
Result<std::unique_ptr<DeviceSegment>> openDeviceSegment(const plan::Plan &plan, uint32_t rank, int descriptor,
                                                         uint64_t bytes);
/// Lets the rank's device use it.
Status allowRank(const plan::Plan &plan, uint32_t rank, DeviceSegment &segment);

} // namespace maestro::executor
