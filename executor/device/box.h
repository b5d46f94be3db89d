// A strided copy of a tensor's part: dims from the outermost, strides and offsets in bytes.
#pragma once

#include "base/status.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace maestro::executor {

struct Box {
  static constexpr size_t kMaxRank = 6;
  uint64_t source = 0, destination = 0; ///< Offsets.
  uint64_t elementBytes = 1;            ///< What is contiguous on both sides below the last dim.
  uint32_t rank = 0;
  std::array<uint64_t, kMaxRank> extents{};
  std::array<int64_t, kMaxRank> sourceStrides{};
  std::array<int64_t, kMaxRank> destinationStrides{};

  static Box contiguous(uint64_t source, uint64_t destination, uint64_t bytes) {
    Box box;
    box.source = source;
    box.destination = destination;
    box.elementBytes = bytes;
    return box;
  }
};

/// Internal where a box has too many dims or would write outside of `bytes`.
Status checkBox(const Box &box, uint64_t bytes);
/// Copies a checked box; contiguous runs by memcpy.
void copyBox(const Box &box, std::byte *to, const std::byte *from);

} // namespace maestro::executor
