// What a GPU of this machine does, measured through the executor's own device.
#pragma once

#include "cost_models/device_profile.h"

namespace maestro::profile {

/// Whether the driver finds a GPU here.
bool hasGpu();

/// `secondsEach`: for each kernel and size, in one round; 0: what a GPU needs. InvalidInput where plans are not made
/// for such GPUs, Unavailable where the driver, its memory or a library is missing.
Result<cost_models::DeviceProfile> profileGpu(double secondsEach);

} // namespace maestro::profile
