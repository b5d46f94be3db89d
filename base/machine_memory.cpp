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

/// Of the group and all around it. Inside of a container its own group may be the root, whatever
/// /proc says.
uint64_t leastLimit(const std::string &root, std::string group, const char *file) {
  uint64_t least = limitIn(root + "/" + file);
  for (; group.size() > 1; group.resize(group.rfind('/')))
    least = std::min(least, limitIn(root + group + "/" + file));
  return least;
}

} // namespace

uint64_t controlGroupLimit(const std::string &membership, const std::string &root) {
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
      least = std::min(least, leastLimit(root, group, "memory.max"));
    else if (controllers.find(",memory,") != std::string::npos)
      least = std::min(least, leastLimit(root + "/memory", group, "memory.limit_in_bytes"));
  }
  return least;
}

uint64_t usableMemoryBytes() {
  uint64_t physical = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return std::min(physical, controlGroupLimit(readText("/proc/self/cgroup"), "/sys/fs/cgroup"));
}

} // namespace maestro
