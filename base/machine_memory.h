// How much memory processes here may use.
#pragma once

#include <cstdint>
#include <string>

namespace maestro {

/// The machine's memory, or the limit of this process's control group where that is less: in a
/// container, what it may use before the kernel ends it.
uint64_t usableMemoryBytes();

/// What of it is free, or would be if caches of files went; counting, of a control group, what its processes have.
uint64_t availableMemoryBytes();

/// The least limit of a control group and those around it, version 2 ("0::/a/b" in `membership`,
/// the text of /proc/self/cgroup) or 1 ("4:memory:/a/b"), with files under `root`; ~0 where there
/// is none.
uint64_t controlGroupLimit(const std::string &membership, const std::string &root);
/// The least of what is free under such limits: the limit, less what processes of the group have, but for files that
/// are cached and were not used lately.
uint64_t controlGroupFree(const std::string &membership, const std::string &root);

} // namespace maestro
