// What is to be done for one peer, in order: a bounded ring that any thread fills and the fabric's thread empties.
#pragma once

#include "transport/fabric.h"

#include <array>
#include <atomic>
#include <mutex>
#include <vector>

namespace maestro::transport {

struct Operation {
  enum class Kind : uint8_t { Write, Put, Signal } kind = Kind::Write;
  uint32_t rank = 0;
  uint64_t offset = 0; ///< In the rank's segment.
  uint64_t bytes = 0;  ///< Of a signal: how much.
  uint32_t word = 0;   ///< Of a signal.
  const std::byte *from = nullptr;
  uint64_t sourceKey = 0; ///< Of the memory there, where the network wants one.
  Word *taken = nullptr;
  std::array<std::byte, Fabric::kMostPutBytes> inlined{};
};

class OperationRing {
public:
  static constexpr uint64_t kSize = 256;
  OperationRing() : operations(kSize) {}

  /// False where it is full.
  bool push(const Operation &operation) {
    std::lock_guard lock(mutex); // Devices and hosts; rarely at once.
    uint64_t next = pushed.load(std::memory_order_relaxed);
    if (next - popped.load(std::memory_order_acquire) == kSize)
      return false;
    operations[next % kSize] = operation;
    pushed.store(next + 1);
    return true;
  }

  // ---- by the fabric's thread

  size_t size() const { return static_cast<size_t>(pushed.load() - popped.load(std::memory_order_relaxed)); }
  const Operation &at(size_t index) const {
    return operations[(popped.load(std::memory_order_relaxed) + index) % kSize];
  }
  void pop(size_t count) { popped.store(popped.load(std::memory_order_relaxed) + count, std::memory_order_release); }

private:
  std::mutex mutex;
  std::vector<Operation> operations;
  std::atomic<uint64_t> pushed{0}, popped{0};
};

} // namespace maestro::transport
