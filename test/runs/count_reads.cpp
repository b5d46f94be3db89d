// For LD_PRELOAD: counts the bytes that programs read of the files below a folder, all processes together.
//
//   MAESTRO_READS_BELOW=/abs/data MAESTRO_READS=counts LD_PRELOAD=libcount_reads.so maestro-run …
//
// `counts` is a file of two 64-bit numbers that all processes add to: bytes of indexes (*.index), and of all other
// files.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

template <typename Function> Function *next(const char *name) {
  return reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, name));
}

std::atomic<uint64_t> *counts() {
  static auto *mapped = [] {
    const char *path = std::getenv("MAESTRO_READS");
    int fd = path ? ::open(path, O_RDWR | O_CLOEXEC) : -1;
    void *memory = fd < 0 ? MAP_FAILED : ::mmap(nullptr, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<std::atomic<uint64_t> *>(memory);
  }();
  return mapped;
}

ssize_t count(int fd, ssize_t bytes) {
  static const char *below = std::getenv("MAESTRO_READS_BELOW");
  char name[PATH_MAX] = {};
  if (bytes <= 0 || !below || !counts() ||
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1) < 0)
    return bytes;
  std::string_view path = name;
  if (path.starts_with(below))
    counts()[path.ends_with(".index") ? 0 : 1] += static_cast<uint64_t>(bytes);
  return bytes;
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

ssize_t read(int fd, void *to, size_t bytes) { return count(fd, next<decltype(read)>("read")(fd, to, bytes)); }

ssize_t pread(int fd, void *to, size_t bytes, off_t offset) {
  return count(fd, next<decltype(pread)>("pread")(fd, to, bytes, offset));
}

ssize_t pread64(int fd, void *to, size_t bytes, off64_t offset) {
  return count(fd, next<decltype(pread64)>("pread64")(fd, to, bytes, offset));
}

ssize_t preadv(int fd, const iovec *parts, int number, off_t offset) {
  return count(fd, next<decltype(preadv)>("preadv")(fd, parts, number, offset));
}

ssize_t preadv64(int fd, const iovec *parts, int number, off64_t offset) {
  return count(fd, next<decltype(preadv64)>("preadv64")(fd, parts, number, offset));
}

} // extern "C"
#pragma GCC visibility pop
