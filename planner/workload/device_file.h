// device.yaml, as maestro-profile writes it.
#pragma once

#include "base/status.h"
#include "cost_models/device_profile.h"

#include <string>
#include <string_view>

namespace maestro::planner {

/// Kind, name, rates and curves.
Result<cost_models::DeviceProfile> readDeviceProfile(const std::string &path);
Result<cost_models::DeviceProfile> parseDeviceProfile(std::string_view text, const std::string &path);

} // namespace maestro::planner
