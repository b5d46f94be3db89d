// The order of a shuffled pass.
#pragma once

#include <cstdint>
#include <span>

namespace maestro::data {

/// The permutation of a pass: a function of seed, pass and count alone.
void shuffle(std::span<uint64_t> order, uint64_t seed, uint64_t pass);

} // namespace maestro::data
