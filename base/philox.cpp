#include "base/philox.h"

#include <cmath>
#include <numbers>

namespace maestro {

PhiloxCounter philox4x32(PhiloxCounter c, PhiloxKey k) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
    uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

std::array<float, 2> normalPair(uint32_t a, uint32_t b) {
  // (bits + 0.5) / 2^32 is never 0, so that the logarithm is finite.
  double u = (static_cast<double>(a) + 0.5) * 0x1p-32;
  double angle = 2.0 * std::numbers::pi * (static_cast<double>(b) * 0x1p-32);
  double radius = std::sqrt(-2.0 * std::log(u));
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

} // namespace maestro
