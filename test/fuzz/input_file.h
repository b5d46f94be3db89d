// The bytes of one fuzz input as a file without a name, for readers that take a path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace maestro::test {

/// One file per process, rewritten for each input.
class InputFile {
public:
  static const std::string &holding(const uint8_t *bytes, size_t size) {
    static InputFile file;
    if (::ftruncate(file.fd, 0) != 0 || ::pwrite(file.fd, bytes, size, 0) != static_cast<ssize_t>(size))
      std::abort();
    return file.path;
  }

private:
  InputFile() : fd(::memfd_create("input", MFD_CLOEXEC)), path("/proc/self/fd/" + std::to_string(fd)) {}
  int fd;
  std::string path;
};

} // namespace maestro::test
