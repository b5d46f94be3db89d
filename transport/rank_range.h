// Neighbouring ranks, and which ones a process runs.
#pragma once

#include <cstdint>

namespace maestro::transport {

/// Ranks first to end − 1.
struct RankRange {
  uint32_t first = 0, end = 0;
  bool has(uint32_t rank) const { return rank >= first && rank < end; }
  uint32_t count() const { return end - first; }
};

/// Of process p of n: [p·R/n, (p+1)·R/n).
constexpr RankRange ranksOf(uint32_t process, uint32_t processes, uint32_t ranks) {
  auto bound = [&](uint64_t p) { return static_cast<uint32_t>(p * ranks / processes); };
  return {bound(process), bound(process + uint64_t{1})};
}

/// The process that has the rank.
constexpr uint32_t processOf(uint32_t rank, uint32_t processes, uint32_t ranks) {
  return static_cast<uint32_t>(((rank + uint64_t{1}) * processes - 1) / ranks);
}

} // namespace maestro::transport
