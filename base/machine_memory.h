// How much memory processes here may use.
#pragma once

#include <cstdint>
#include <string>

namespace maestro {

/// The machine's memory, or the limit of this process's control group where that is less: in a
/// container, what it may use before the kernel ends it.
uint64_t usableMemoryBytes();

/// The least limit of a control group and those around it, version 2 ("0::/a/b" in `membership`,
/// the text of /proc/self/cgroup) or 1 ("4:memory:/a/b"), with files under `root`; ~0 where there
/// is none.
uint64_t controlGroupLimit(const std::string &membership, const std::string &root);

} // namespace maestro
