// Packing buffers with known lifetimes into one block of memory.
//
// Pure: a problem, an algorithm, a check; no MLIR. The problem is dynamic storage allocation, which is
// NP-hard; see packArena() for what is promised.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace maestro::planner {

/// A buffer that lives from time `first` to time `last`, both included, and needs `bytes`.
struct Lifetime {
  uint32_t first = 0, last = 0;
  uint64_t bytes = 0;
};

/// Every buffer starts at a multiple of this; sizes are rounded up to it.
inline constexpr uint64_t kArenaAlignment = 64;

struct ArenaLayout {
  std::vector<uint64_t> offsets; ///< One per lifetime.
  uint64_t bytes = 0;            ///< Of the whole arena.
};

/// The largest sum of live (rounded) bytes over time: no layout can be smaller.
uint64_t liveBytesBound(std::span<const Lifetime> lifetimes);

/// Tries several greedy orders (by size, by lifetime, by size × lifetime), placing each buffer at the
/// lowest offset free during its whole lifetime, and keeps the smallest result; stops at the bound. A
/// heuristic: on training programs it is within a few percent of the bound (test/planner/arena_test.cpp
/// and the planner's own report say how far). O(n² ) in the number of overlapping buffers.
ArenaLayout packArena(std::span<const Lifetime> lifetimes);

/// No two buffers that live at the same time overlap; all lie inside the arena and are aligned.
Status verify(std::span<const Lifetime> lifetimes, const ArenaLayout &layout);

} // namespace maestro::planner
