#include "base/finite.h"

#include <cstdint>
#include <cstring>

namespace maestro {

bool areFinite(std::span<const std::byte> floats) {
  constexpr uint32_t kExponent = 0x7f800000; // All ones: infinite, or no number.
  constexpr size_t kBlock = 1024;            // Looked at without a branch, which a processor does many at a time.
  size_t count = floats.size() / sizeof(float);
  for (size_t first = 0; first < count; first += kBlock) {
    size_t end = count - first < kBlock ? count : first + kBlock;
    uint32_t any = 0;
    for (size_t i = first; i < end; ++i) {
      uint32_t bits;
      std::memcpy(&bits, floats.data() + i * sizeof bits, sizeof bits);
      any |= (bits & kExponent) == kExponent;
    }
    if (any)
      return false;
  }
  return true;
}

} // namespace maestro
