// Memory that every local rank sees at the same address, whether ranks are threads or processes.
//
// One anonymous shared mapping, made before the ranks start: threads share it anyway, and fork() keeps it where it is,
// so plain pointers into it mean the same everywhere. Processes that were not forked from one another map each other's
// by a descriptor, at addresses of their own (local/neighbour.h). What several ranks touch at a time is lock-free
// atomics only, which work across processes because they need no address of their own.
//
// allocate() is for the time before ranks start, by one thread. Blocks are zero, 64-byte aligned, and live as long as
// the mapping.
#pragma once

#include "base/status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace maestro::transport {

inline constexpr uint64_t kBlockAlignment = 64;

constexpr uint64_t alignBlock(uint64_t bytes) { return (bytes + kBlockAlignment - 1) & ~(kBlockAlignment - 1); }

/// The largest pages that hosts have: parts that drivers register share none.
inline constexpr uint64_t kPageBytes = 64 << 10;

constexpr uint64_t alignPage(uint64_t bytes) { return (bytes + kPageBytes - 1) & ~(kPageBytes - 1); }

class SharedMemory {
public:
  /// Reserves `bytes`; pages come when first touched, or now with `prefaulted`.
  static Result<std::unique_ptr<SharedMemory>> create(uint64_t bytes, bool prefaulted = false);
  /// The same, with a descriptor by which other processes can map it; its size is sealed.
  static Result<std::unique_ptr<SharedMemory>> createOpen(uint64_t bytes);
  /// All of another process's, by its descriptor, which the caller keeps. Not for allocate().
  static Result<std::unique_ptr<SharedMemory>> map(int descriptor, uint64_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory &) = delete;

  /// A block of zeros; `purpose` names it in the error when memory runs out.
  Result<void *> allocate(uint64_t bytes, std::string_view purpose, uint64_t alignment = kBlockAlignment);

  /// `count` value-initialised objects, which are never destroyed.
  template <typename T> Result<T *> make(uint64_t count, std::string_view purpose) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= kBlockAlignment);
    MAESTRO_ASSIGN(void *block, allocate(count * sizeof(T), purpose));
    T *objects = static_cast<T *>(block);
    for (uint64_t i = 0; i < count; ++i)
      new (objects + i) T();
    return objects;
  }

  /// Brings the blocks into memory and into this process's page table: pages that fork() has shared still fault once
  /// in each child.
  Status prefault();

  bool contains(const void *pointer) const {
    auto address = reinterpret_cast<uintptr_t>(pointer), start = reinterpret_cast<uintptr_t>(base);
    return address >= start && address < start + size;
  }
  uint64_t bytes() const { return size; }
  /// All of it, for whoever has to register it.
  std::span<std::byte> span() const { return {start(), size}; }
  std::byte *start() const { return reinterpret_cast<std::byte *>(base); }
  int descriptor() const { return file; } ///< −1: others cannot open it.
  uint64_t usedBytes() const { return used; }

  struct Block {
    std::string purpose;
    uint64_t bytes;
  };
  /// What was allocated, in order; for accounting.
  const std::vector<Block> &blocks() const { return allocated; }

private:
  SharedMemory(char *base, uint64_t size, int file = -1) : base(base), size(size), file(file) {}

  char *base;
  uint64_t size, used = 0;
  int file;
  std::vector<Block> allocated;
};

} // namespace maestro::transport
