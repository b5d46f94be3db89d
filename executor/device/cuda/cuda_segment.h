// Memory of a GPU that other ranks' GPUs write: one allocation of its own, mapped, which other processes map by a
// descriptor.
#pragma once

#include "executor/device/device_segment.h"

#include <memory>

namespace maestro::executor {

/// Zeroed memory of the device, which is a number in a plan. Unavailable where it has too little.
Result<std::unique_ptr<DeviceSegment>> createCudaSegment(uint32_t device, uint64_t bytes);
/// Another process's, which was created for so many bytes; for this process's device. The descriptor is not needed
/// afterwards.
Result<std::unique_ptr<DeviceSegment>> openCudaSegment(uint32_t device, int descriptor, uint64_t bytes);

} // namespace maestro::executor
