// The memory of each rank that others may write: one segment a rank, in which every protocol has its places.
//
// Where a place lies follows from the plan alone: every rank reserves the same places in the same order, so nobody has
// to tell offsets. Only where a segment itself is, is told: here as an address in memory that ranks share; between
// machines as an address and a key.
#pragma once

#include "base/status.h"
#include "transport/shared_memory.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace maestro::transport {

struct Place {
  uint32_t rank = 0;   ///< Whose segment.
  uint64_t offset = 0; ///< In bytes; a multiple of 64.
  Place operator+(uint64_t bytes) const { return {rank, offset + bytes}; }
};

/// Reserves places.
class SegmentPlan {
public:
  explicit SegmentPlan(uint32_t ranks) : sizes(ranks) {}
  Place reserve(uint32_t rank, uint64_t bytes) {
    Place place{rank, sizes[rank]};
    sizes[rank] += alignBlock(bytes);
    return place;
  }
  uint64_t bytes(uint32_t rank) const { return sizes[rank]; }
  uint32_t ranks() const { return static_cast<uint32_t>(sizes.size()); }

private:
  std::vector<uint64_t> sizes;
};

/// Segments that this process can reach, all of them zero at first.
class Segments {
public:
  /// In one mapping, before ranks start.
  static Result<Segments> create(SharedMemory &memory, const SegmentPlan &plan) {
    Segments segments;
    for (uint32_t rank = 0; rank < plan.ranks(); ++rank) {
      MAESTRO_ASSIGN(void *base, memory.allocate(plan.bytes(rank), "rank " + std::to_string(rank) + "'s segment"));
      segments.bases.push_back(static_cast<std::byte *>(base));
    }
    return segments;
  }

  std::byte *at(const Place &place) const { return bases[place.rank] + place.offset; }
  template <typename T> T *as(const Place &place) const { return reinterpret_cast<T *>(at(place)); }

private:
  std::vector<std::byte *> bases; ///< By rank.
};

} // namespace maestro::transport
