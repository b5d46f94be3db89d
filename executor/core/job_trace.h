// What the ranks of this process did, as a Chrome trace.
#pragma once

#include "executor/core/job.h"

#include <string>

namespace maestro::executor {

/// Adds the tasks and kernels of the job's ranks that are in this process to a trace file that exists; the root adds
/// the samples' sizes by step. `clockAheadNs` is added to this machine's times. Unavailable where it cannot be written.
Status writeTrace(const plan::Plan &plan, Job &job, bool isRoot, const std::string &path, int64_t clockAheadNs = 0);

} // namespace maestro::executor
