#include "executor/data/permutation.h"

#include "base/philox.h"

#include <algorithm>
#include <numeric>

namespace maestro::data {

/// Fisher–Yates, from the identity.
void shuffle(std::span<uint64_t> order, uint64_t seed, uint64_t pass) {
  std::iota(order.begin(), order.end(), uint64_t{0});
  PhiloxKey key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  auto passLow = static_cast<uint32_t>(pass), passHigh = static_cast<uint32_t>(pass >> 32);
  for (uint64_t i = order.size(); i-- > 1;) {
    PhiloxCounter bits = philox4x32({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), passLow, passHigh}, key);
    uint64_t wide = uint64_t{bits[0]} << 32 | bits[1];
    auto j = static_cast<uint64_t>((static_cast<unsigned __int128>(wide) * (i + 1)) >> 64);
    std::swap(order[i], order[j]);
  }
}

} // namespace maestro::data
