// Whether numbers are finite, many at a time.
#pragma once

#include <cstddef>
#include <span>

namespace maestro {

/// Of floats that need no alignment; what is left of the bytes behind the last whole one is not looked at.
bool areFinite(std::span<const std::byte> floats);

} // namespace maestro
