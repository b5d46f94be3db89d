// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). A number is a pure function of key and counter, so that no order of work, layout
// or thread count changes it.
#pragma once

#include <array>
#include <cstdint>

namespace maestro {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Four independent uniform 32-bit numbers for one counter.
PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key);

/// Uniform in [0, 1) with 24 bits.
inline float uniformFloat(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

/// Two standard normal numbers from two uniform ones (Box–Muller).
std::array<float, 2> normalPair(uint32_t a, uint32_t b);

} // namespace maestro
