// The part of a rank's segment that devices alone touch, in memory of the rank's own device: what the devices of other
// ranks send goes straight there, from device to device.
#pragma once

#include "base/status.h"
#include "transport/fabric.h"

#include <cstddef>
#include <cstdint>

namespace maestro::executor {

/// Mapped as long as this lives: after all devices of this process that use it.
class DeviceSegment {
public:
  virtual ~DeviceSegment() = default;
  /// As devices of this process name it; the host cannot use it.
  virtual std::byte *address() const = 0;
  /// A descriptor by which other processes of this machine open it; open as long as this lives. Unavailable where the
  /// driver gives none.
  virtual Result<int> descriptor() = 0;
  /// Lets a device of this process, by its number in the plan, read and write it. Unavailable where there is no way
  /// between the two devices.
  virtual Status allow(uint32_t device) = 0;
  /// The same memory for NICs of this machine to write, as long as this lives. Unavailable where they have no way to
  /// it, or the device would not see what they have written.
  virtual Result<transport::DeviceMemory> forNics() = 0;
};

} // namespace maestro::executor
