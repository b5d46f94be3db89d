// Where the bulk of ranks' segments lies: in memory of their devices, where everybody who writes there reaches that
// from device to device; else in the host's memory.
//
//   every process                                              its peers on this machine
//   makes its ranks' segments on their devices
//   offers each, with a descriptor ──────── post box ────────▶ open it, for their devices
//          ◀──────────────────────────────────────────────────  answer: can, or why not
//   says what holds: all can, so it lies there ──────────────▶ take it, or forget it
//
// Other machines write there where NICs do (core/cluster_dmabuf.h): they are told where. Nobody has to write there yet:
// ends are made afterwards.
#pragma once

#include "executor/core/cluster_dmabuf.h"
#include "executor/core/seats.h"
#include "executor/core/world.h"
#include "executor/device/device_segment.h"

#include <memory>
#include <vector>

namespace maestro::executor {

/// In use as long as ends are.
using DeviceSegments = std::vector<std::unique_ptr<DeviceSegment>>;

/// By all processes of the job, when their devices are open; `dmaBuf` is null where NICs do not write there. Says once
/// a process why a rank's bulk is in the host's memory. Unavailable where a device has too little memory.
Result<DeviceSegments> placeBulkOnDevices(const plan::Plan &plan, World &world, const Seats &seats, DmaBufWay *dmaBuf);

} // namespace maestro::executor
