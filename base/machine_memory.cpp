#include "base/machine_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace maestro {
namespace {

constexpr uint64_t kNoLimit = ~uint64_t{0};

/// The beginning of a file that the kernel makes up; empty where there is none.
std::string readText(const std::string &path) {
  char text[4096];
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ssize_t size = fd < 0 ? 0 : ::read(fd, text, sizeof text);
  if (fd >= 0)
    ::close(fd);
  return std::string(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
}

/// "max" and what is no number are no limit.
uint64_t limitIn(const std::string &path) {
  std::string text = readText(path);
  char *end = nullptr;
  errno = 0;
  uint64_t value = std::strtoull(text.c_str(), &end, 10);
  return end == text.c_str() || errno != 0 ? kNoLimit : value;
}

/// The number behind "key " in a file of such lines; 0 where there is none.
uint64_t numberBehind(const std::string &path, const std::string &key) {
  std::string text = "\n" + readText(path);
  size_t at = text.find("\n" + key);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + 1 + key.size(), nullptr, 10);
}

/// The names of one version's files.
struct GroupFiles {
  const char *limit, *used, *cached;
};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current", "inactive_file "};

uint64_t limitOf(const std::string &folder, const GroupFiles &files) { return limitIn(folder + "/" + files.limit); }

uint64_t freeOf(const std::string &folder, const GroupFiles &files) {
  uint64_t limit = limitOf(folder, files), used = limitIn(folder + "/" + files.used);
  if (limit == kNoLimit || used == kNoLimit)
    return limit;
  used -= std::min(used, numberBehind(folder + "/memory.stat", files.cached));
  return limit - std::min(limit, used);
}

using OfGroup = uint64_t(const std::string &folder, const GroupFiles &files);

/// Of the group and all around it. Inside of a container its own group may be the root, whatever
/// /proc says.
uint64_t leastAround(const std::string &root, std::string group, const GroupFiles &files, OfGroup *ofGroup) {
  uint64_t least = ofGroup(root, files);
  for (; group.size() > 1; group.resize(group.rfind('/')))
    least = std::min(least, ofGroup(root + group, files));
  return least;
}

uint64_t leastOf(const std::string &membership, const std::string &root, OfGroup *ofGroup) {
  uint64_t least = kNoLimit;
  for (size_t begin = 0, end; begin < membership.size(); begin = end + 1) {
    end = std::min(membership.find('\n', begin), membership.size());
    std::string line = membership.substr(begin, end - begin); // "number:controllers:/group"
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos)
      continue;
    std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",", group = line.substr(second + 1);
    if (group.empty() || group[0] != '/')
      continue;
    if (controllers == ",,")
      least = std::min(least, leastAround(root, group, kVersion2, ofGroup));
    else if (controllers.find(",memory,") != std::string::npos)
      least = std::min(least, leastAround(root + "/memory", group, kVersion1, ofGroup));
  }
  return least;
}

} // namespace

uint64_t controlGroupLimit(const std::string &membership, const std::string &root) {
  return leastOf(membership, root, limitOf);
}

uint64_t controlGroupFree(const std::string &membership, const std::string &root) {
  return leastOf(membership, root, freeOf);
}

uint64_t usableMemoryBytes() {
  uint64_t physical = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(physical, controlGroupLimit(readText("/proc/self/cgroup"), "/sys/fs/cgroup"));
}

uint64_t availableMemoryBytes() {
  uint64_t available = numberBehind("/proc/meminfo", "MemAvailable:") * 1024;
  return std::min(available, controlGroupFree(readText("/proc/self/cgroup"), "/sys/fs/cgroup"));
}

} // namespace maestro
