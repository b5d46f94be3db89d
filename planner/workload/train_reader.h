// The `train` map of a workload file.
#pragma once

#include "planner/workload/workload.h"

namespace maestro::planner {

/// `node` may be null: every default is taken. Adds what was taken to workload.defaults.
Status readTrain(const YamlNode *node, Workload &workload);

} // namespace maestro::planner
