// Going on from a checkpoint: whether it fits, and its values into the stations that are here.
#pragma once

#include "base/status.h"
#include "executor/checkpoint/directory.h"
#include "executor/core/job.h"
#include "executor/core/parameters.h"

namespace maestro::executor {

/// InvalidInput where it was written by another workload, or where values that it does not hold came from weights that
/// are not given again. Warns where going on is not bitwise.
Status checkFits(const plan::Plan &plan, const checkpoint::FoundCheckpoint &found, const WeightFiles &weights);

/// Warns where the root's device, or what drives it, is another than the one that wrote the checkpoint: what, and that
/// going on is not bitwise.
void warnOfOtherDevice(const checkpoint::FoundCheckpoint &found, const std::map<std::string, std::string> &device);

/// Loads values and optimizer state of a checkpoint into all stations that are here. A tensor that is missing or of
/// another shape is InvalidInput and named.
Status loadCheckpoint(const plan::Plan &plan, const checkpoint::FoundCheckpoint &found, Job &job);

} // namespace maestro::executor
