// The whole of maestro-profile's work: kernels by size, calls of plans' programs, and rates, with
// each number of threads.
#pragma once

#include "cost_models/device_profile.h"
#include "tools/profile/plan_programs.h"

#include <string>
#include <vector>

namespace maestro::profile {

/// As the system names it.
std::string processorName();

/// `secondsEach`: for each kernel, size and number of threads, in one round; 0: what fits two
/// minutes, in some rounds. `data`: shards of the plans' samples; without any they are synthetic.
Result<cost_models::DeviceProfile> profileMachine(double secondsEach, const std::vector<PlanPrograms> &plans,
                                                  const std::vector<std::string> &data);
/// Lines of device.yaml: calls of plans' programs alone.
Result<std::string> profileCalls(double secondsEach, const std::vector<PlanPrograms> &plans);

} // namespace maestro::profile
