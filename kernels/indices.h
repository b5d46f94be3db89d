// Indices that come from data: negative ones count from the end, others are errors.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace maestro::kernels {

/// "gather: index 17 at position 3 is outside [-10, 10)".
Status indexError(std::string_view kernel, int64_t index, int64_t position, int64_t low, int64_t limit);

/// The index in [0, limit), or −1 when there is none.
inline int64_t wrapIndex(int64_t index, int64_t limit) {
  int64_t wrapped = index < 0 ? index + limit : index;
  return wrapped >= 0 && wrapped < limit ? wrapped : -1;
}

} // namespace maestro::kernels
