// Where the bulk of ranks' segments lies: in memory of their devices, where everybody who writes there reaches that
// from device to device; else in the host's memory.
//
//   every process                                              its peers on this machine
//   makes its ranks' segments on their devices
//   offers each, with a descriptor ──────── post box ────────▶ open it, for their devices
//          ◀──────────────────────────────────────────────────  answer: can, or why not
//   says what holds: all can, so it lies there ──────────────▶ take it, or forget it
//
// Others write there where NICs or NCCL do (core/bulk_way.h): they are told where. Nobody has to write there yet:
// ends are made afterwards.
#pragma once

#include "executor/core/bulk_way.h"
#include "executor/core/seats.h"
#include "executor/core/world.h"
#include "executor/device/device_segment.h"

#include <memory>
#include <vector>

namespace maestro::executor {

/// In use as long as ends are.
using DeviceSegments = std::vector<std::unique_ptr<DeviceSegment>>;

/// By all processes of the job, when their devices are open; `way` is null where addresses are all that it takes. Says
/// once a process why a rank's bulk is in the host's memory. Unavailable where a device has too little memory.
Result<DeviceSegments> placeBulkOnDevices(const plan::Plan &plan, World &world, const Seats &seats, BulkWay *way);

} // namespace maestro::executor
