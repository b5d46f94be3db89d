// Which threads work on a row, seen from the host: kernels of rows.h exist for narrow rows (a warp each) and wide ones
// (a block each).
#pragma once

#include "kernels/cuda/sequence.h"

namespace maestro::kernels::cuda {

inline constexpr int64_t kWideRow = 1024; ///< More than four chunks a lane.

/// What stands in the kernel's name between its stem and its element types.
inline const char *rowInfix(int64_t width) { return width > kWideRow ? "_wide_" : "_"; }
inline Grid rowGrid(int64_t rows, int64_t width) {
  int64_t perBlock = width > kWideRow ? 1 : kBlock / 32;
  return {static_cast<unsigned>(std::min<int64_t>((rows + perBlock - 1) / perBlock, UINT32_MAX))};
}

} // namespace maestro::kernels::cuda
