// Bytes to the end of an open file.
#pragma once

#include "base/system_failure.h"

#include <cerrno>
#include <string>
#include <string_view>
#include <unistd.h>

namespace maestro::metrics {

/// All of them, in as many calls as it takes. Unavailable, naming the path, where that fails.
inline Status writeWhole(int fd, std::string_view bytes, const std::string &path) {
  while (!bytes.empty()) {
    ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return systemFailure("write", path, errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return Status();
}

} // namespace maestro::metrics
