// Mutations that know the plan format: a plan is unpacked, changed in a few fields, and packed again, so that most of
// what comes out is a well-formed file and much of it a valid plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace maestro::fuzz {

/// Changes the plan in `bytes` and returns its new size, at most `most`; 0 where the bytes are no plan's structure or
/// the result would be larger.
size_t mutatePlan(uint8_t *bytes, size_t size, size_t most, std::mt19937 &random);

} // namespace maestro::fuzz
