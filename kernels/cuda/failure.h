// What a kernel leaves behind when data are bad. It lies in pinned memory that host and device see; the host reads it
// at events and before anything leaves the device.
#pragma once

#include <cstdint>

namespace maestro::kernels::cuda {

enum class FailureCode : uint32_t {
  None = 0,
  IndexOutOfRange = 1, ///< `index` at `position` is outside [low, limit).
  MaskAsksForMore = 2, ///< A masked scatter found its source's `limit` elements used up at `position`.
  MaskTakesFewer = 3,  ///< A masked scatter took `index` of its source's `limit` elements.
};

/// The first failure of a queue: of the earliest call, at the lowest position. All zero: none.
struct Failure {
  FailureCode code = FailureCode::None;
  uint32_t lock = 0; ///< Held while a thread of the device writes.
  uint32_t call = 0; ///< Launch::call of the call that failed.
  uint32_t padding = 0;
  int64_t position = 0, index = 0, low = 0, limit = 0;
};

} // namespace maestro::kernels::cuda
