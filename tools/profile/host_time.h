// What a job's own threads take in a step: those that read samples, schedule, and drive devices.
#pragma once

#include "base/status.h"

#include <string>
#include <vector>

namespace maestro::profile {

/// Processor seconds a step, on average over some steps of the plan on these shards, or on synthetic samples where
/// there are none; it takes some seconds. Of all threads but the devices'. What the executor says where the plan cannot
/// run on this machine.
Result<double> hostSeconds(const std::string &planPath, const std::vector<std::string> &data);

} // namespace maestro::profile
