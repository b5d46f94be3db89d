// How many prepared kernels a device keeps for shapes that it has seen: what the executor obeys and the planner's memory counts.
#pragma once

#include <cstddef>

namespace maestro {

/// Calls of an executable's programs, and kernels of its device, which calls that are alike share.
inline constexpr size_t kMostKeptCalls = 16384, kMostKeptKernels = 3000;

} // namespace maestro
