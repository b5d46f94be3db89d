// Which options of a run go together.
#pragma once

#include "executor/core/run.h"

namespace maestro::executor {

/// InvalidInput where an option excludes another, or lacks one that it needs. Says what will not be kept.
Status checkOptions(const RunOptions &options);

} // namespace maestro::executor
