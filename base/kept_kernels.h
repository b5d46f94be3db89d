// How much a device keeps prepared for shapes that it has seen: what the executor obeys and the planner's memory
// counts.
#pragma once

#include <cstddef>

namespace maestro {

/// Calls of an executable's programs, and bytes of its device's kernels, which calls that are alike share: some 6,000
/// loops of our own, or 850 of oneDNN's primitives.
inline constexpr size_t kMostKeptCalls = 16384, kMostKeptBytes = 12 << 20;

} // namespace maestro
