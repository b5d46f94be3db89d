// A block of device memory of the CPU device.
#pragma once

#include "base/status.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <utility>

namespace maestro::executor {

/// Anonymous memory: zeroed, page-aligned, returned to the system at the end.
class MappedBlock {
public:
  static Result<MappedBlock> map(uint64_t bytes, std::string_view purpose) {
    void *data = ::mmap(nullptr, std::max<uint64_t>(bytes, 1), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
      return Status::unavailable("cannot allocate " + std::to_string(bytes) + " bytes for " +
                                 std::string(purpose) + ": " + std::strerror(errno) +
                                 "; free memory or plan with a smaller micro-batch");
    // No large pages: arenas are sized for the bounds and touched in part, and no step became
    // faster with them.
    return MappedBlock(data, bytes);
  }
  /// Somebody else's memory.
  static MappedBlock borrow(void *data, uint64_t bytes) {
    MappedBlock block(data, bytes);
    block.owned = false;
    return block;
  }
  MappedBlock(MappedBlock &&other) noexcept
      : data(std::exchange(other.data, nullptr)), bytes(other.bytes), owned(other.owned) {}
  MappedBlock &operator=(MappedBlock &&) = delete;
  ~MappedBlock() {
    if (data && owned)
      ::munmap(data, std::max<uint64_t>(bytes, 1));
  }
  std::byte *get() const { return static_cast<std::byte *>(data); }
  uint64_t size() const { return bytes; }

private:
  MappedBlock(void *data, uint64_t bytes) : data(data), bytes(bytes) {}
  void *data;
  uint64_t bytes;
  bool owned = true;
};

} // namespace maestro::executor
