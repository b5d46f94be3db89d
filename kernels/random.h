// Which elements dropout drops: a pure function of seed, stream, step, sample and position.
#pragma once

#include "base/philox.h"

#include <cstdint>

namespace maestro::kernels {

/// 64 bits folded to 32, so that small numbers stay themselves.
inline uint32_t fold(int64_t value) {
  return static_cast<uint32_t>(value) ^ static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32);
}

/// The number of one element: word position % 4 of counter (step, sample, row, position ÷ 4).
inline float dropoutUniform(int64_t seed, int64_t stream, int64_t step, int64_t sample, int64_t row, int64_t position) {
  PhiloxCounter numbers =
      philox4x32({fold(step), fold(sample), fold(row), fold(position >> 2)}, {fold(seed), fold(stream)});
  return uniformFloat(numbers[position & 3]);
}

} // namespace maestro::kernels
