#include "test/allocations/allocations.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <malloc.h>
#include <new>

namespace {

std::atomic<int64_t> count{0}, held{0}, peak{0};

void hold(int64_t bytes) {
  int64_t now = held.fetch_add(bytes) + bytes;
  for (int64_t old = peak; now > old && !peak.compare_exchange_weak(old, now);) {
  }
}

// Not inlined, so that the compiler does not pair the free() inside one operator with the other.
[[gnu::noinline]] void *allocate(size_t bytes, size_t alignment) {
  ++count;
  bytes = bytes ? (bytes + alignment - 1) / alignment * alignment : alignment;
  if (void *memory = std::aligned_alloc(alignment, bytes)) {
    hold(static_cast<int64_t>(::malloc_usable_size(memory)));
    return memory;
  }
  throw std::bad_alloc();
}
[[gnu::noinline]] void release(void *memory) {
  held -= static_cast<int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

} // namespace

// The array forms call these.
void *operator new(size_t bytes) { return allocate(bytes, alignof(std::max_align_t)); }
void *operator new(size_t bytes, std::align_val_t alignment) { return allocate(bytes, static_cast<size_t>(alignment)); }
void operator delete(void *memory) noexcept { release(memory); }
void operator delete(void *memory, size_t) noexcept { release(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void *memory, size_t, std::align_val_t) noexcept { release(memory); }

int64_t maestro::test::allocations() { return count; }

int64_t maestro::test::takePeakBytes() { return peak.exchange(held); }
