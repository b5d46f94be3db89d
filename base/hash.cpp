#include "base/hash.h"

namespace maestro {

uint64_t hashBytes(std::span<const uint8_t> bytes) {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325;
  size_t position = 0;
  for (; position + 8 <= bytes.size(); position += 8) {
    uint64_t word = 0;
    for (int byte = 7; byte >= 0; --byte)
      word = word << 8 | bytes[position + static_cast<size_t>(byte)];
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 29; // Without it a word's high bits would never reach the low bits of the hash.
  }
  for (; position < bytes.size(); ++position)
    hash = (hash ^ bytes[position]) * kPrime;
  hash = (hash ^ bytes.size()) * kPrime;
  hash ^= hash >> 32;
  hash *= 0x9e3779b97f4a7c15;
  return hash ^ hash >> 29;
}

} // namespace maestro
