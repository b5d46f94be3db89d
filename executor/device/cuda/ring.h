// A ring of bytes in pinned memory: pieces are taken in order by the host's thread, and given back in order by whoever
// sees that they are no longer used.
#pragma once

#include "executor/device/cuda/host_memory.h"

#include <atomic>
#include <optional>

namespace maestro::executor {

class PinnedRing {
public:
  static constexpr uint64_t kBytes = 4 << 20;
  static constexpr uint64_t kMaxPieceBytes = kBytes / 4;

  explicit PinnedRing(PinnedBlock block) : block(std::move(block)) {}

  struct Piece {
    std::byte *memory = nullptr;
    uint64_t end = 0; ///< To be given back up to here.
  };
  /// At most kMaxPieceBytes; nothing while there is no room.
  std::optional<Piece> take(uint64_t bytes) {
    bytes = (bytes + 63) & ~uint64_t{63};
    uint64_t start = head;
    if (start % kBytes + bytes > kBytes) // Pieces are contiguous.
      start += kBytes - start % kBytes;
    if (start + bytes - tail.load() > kBytes)
      return std::nullopt;
    head = start + bytes;
    return Piece{block.get() + start % kBytes, head};
  }
  /// Any thread.
  void giveBack(uint64_t end) { tail.store(end); }
  std::span<const std::byte> memory() const { return block.span(); }

private:
  PinnedBlock block;
  uint64_t head = 0;
  std::atomic<uint64_t> tail{0};
};

} // namespace maestro::executor
