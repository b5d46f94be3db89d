// Doubles as integers where a plain cast would be undefined.
#pragma once

#include <cstdint>
#include <limits>

namespace maestro {

/// Towards zero; beyond what an int64 holds its nearest value; 0 for NaN.
constexpr int64_t saturatedInt64(double value) {
  if (value != value)
    return 0;
  if (value >= 0x1p63)
    return std::numeric_limits<int64_t>::max();
  return value < -0x1p63 ? std::numeric_limits<int64_t>::min() : static_cast<int64_t>(value);
}

} // namespace maestro
