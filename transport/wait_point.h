// A place to sleep in shared memory: a futex that works across processes, wherever each has mapped it, with the words
// that protocol::Await and protocol::Notify need.
#pragma once

#include <atomic>
#include <cstdint>

namespace maestro::transport {

struct WaitPoint {
  std::atomic<uint32_t> epochWord{0};
  std::atomic<uint32_t> waiterCount{0};

  // The port of protocol::Await and protocol::Notify.
  uint32_t waiters() const { return waiterCount.load(); }
  void addWaiter() { waiterCount.fetch_add(1); }
  void removeWaiter() { waiterCount.fetch_sub(1); }
  uint32_t epoch() const { return epochWord.load(); }
  void bumpEpoch() { epochWord.fetch_add(1); }
  /// Wakes all sleepers, in every process.
  void wake();
  /// Sleeps while the epoch is `seen`; also returns after `timeoutNs`.
  void sleep(uint32_t seen, int64_t timeoutNs);
};

static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free &&
              sizeof(std::atomic<uint32_t>) == 4);

} // namespace maestro::transport
