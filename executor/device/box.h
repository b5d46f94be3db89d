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
/// How many runs of bytes, each contiguous on both sides, a box has.
uint64_t runsOf(const Box &box);
/// The same copy in as few dims as can be: each element is a run. Without elements, elementBytes is 0.
Box mergeDims(const Box &box);
/// Goes through a box's runs.
class RunCursor {
public:
  struct Run {
    int64_t destination = 0, source = 0; ///< Offsets from the bases.
    uint64_t bytes = 0;
  };
  explicit RunCursor(const Box &box);
  /// False after the last.
  bool next(Run &run);

private:
  Box merged; ///< Its elements are the runs.
  std::array<uint64_t, Box::kMaxRank> at{};
  bool hasMore;
};
/// Copies a checked box; contiguous runs by memcpy.
void copyBox(const Box &box, std::byte *to, const std::byte *from);

} // namespace maestro::executor
