// Other processes of this machine that were not forked from this one, but started beside it by an engine: each maps
// the others' segments, so that between them there is no network.
//
//   NeighbourCard::of()   what this process tells the others: where its memory is to be opened, and what lies where
//   openNeighbour(card)   that memory mapped here, by its descriptor in /proc
//   enter(card)           from now on its ranks' segments are memory of this process
//
// Only processes of the same user in the same PID namespace can open each other's.
#pragma once

#include "base/status.h"
#include "transport/rank_range.h"
#include "transport/segments.h"
#include "transport/shared_memory.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::transport {

struct NeighbourCard {
  std::string machine;       ///< The kernel's boot identifier and the host's name, alike for neighbours only.
  uint64_t pidNamespace = 0; ///< Its inode.
  uint32_t pid = 0;
  int32_t descriptor = -1;
  std::string post;              ///< The name of its post box (post.h); empty: it has none.
  uint64_t inode = 0, bytes = 0; ///< Of the memory.
  struct Segment {
    uint32_t rank = 0;
    uint64_t offset = 0, bytes = 0;
  };
  std::vector<Segment> segments;

  /// This process's; its segments are in `memory` (SharedMemory::createOpen).
  static NeighbourCard of(const SharedMemory &memory, const Segments &segments);
};

std::vector<std::byte> encode(const NeighbourCard &card);
/// InvalidInput where the bytes are not one whole card.
Result<NeighbourCard> decodeNeighbourCard(std::span<const std::byte> bytes);

/// The memory of another process of this machine. InvalidInput where the card is not of these ranks; Unavailable where
/// it cannot be opened, with the reason.
Result<std::unique_ptr<SharedMemory>> openNeighbour(const NeighbourCard &card, RankRange ranks,
                                                    const Segments &segments);
/// The memory is that of the card, and outlives the segments' ends.
void enter(const NeighbourCard &card, const SharedMemory &memory, Segments &segments);

} // namespace maestro::transport
