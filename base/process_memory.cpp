#include "base/process_memory.h"

#include <charconv>
#include <fcntl.h>
#include <string_view>
#include <unistd.h>

namespace maestro {

uint64_t peakResidentBytes() {
  int fd = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  char text[4096]; // The line is the 18th or so of about 60.
  ssize_t size = ::read(fd, text, sizeof text);
  ::close(fd);
  std::string_view status(text, size > 0 ? static_cast<size_t>(size) : 0);
  size_t line = status.find("VmHWM:");
  if (line == std::string_view::npos)
    return 0;
  const char *digit = status.data() + line + 6, *end = status.data() + status.size();
  while (digit < end && (*digit == ' ' || *digit == '\t'))
    ++digit;
  uint64_t kilobytes = 0;
  std::from_chars(digit, end, kilobytes);
  return kilobytes * 1024;
}

} // namespace maestro
