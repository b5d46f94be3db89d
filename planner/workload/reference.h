// What may stand in workload.yaml, cluster.yaml and device.yaml, as Markdown: the keys, kinds and defaults are those
// that their readers ask for, so that the page cannot say anything else; docs/reference/files.md is this text.
#pragma once

#include "base/status.h"

#include <string>

namespace maestro::planner {

/// Internal where a key has no meaning here, or a meaning no key.
Result<std::string> keyReference();

} // namespace maestro::planner
