// What another process must know to write to the ranks of this one.
#pragma once

#include "base/status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace maestro::transport {

struct FabricCard {
  struct Segment {
    uint32_t rank = 0;
    uint64_t base = 0, key = 0, bytes = 0;
    uint32_t firstWord = 0; ///< Among those of its process.
  };
  /// Of bulk that lies in memory of a device.
  struct Bulk {
    uint32_t rank = 0;
    uint64_t base = 0, key = 0;
  };
  std::vector<std::byte> endpoint; ///< As the implementation writes it.
  std::vector<Segment> segments;
};

std::vector<std::byte> encode(const FabricCard &card);
std::vector<std::byte> encode(std::span<const FabricCard::Bulk> bulks);
/// InvalidInput where the bytes are not one whole card.
Result<FabricCard> decodeCard(std::span<const std::byte> bytes);
Result<std::vector<FabricCard::Bulk>> decodeBulks(std::span<const std::byte> bytes);

} // namespace maestro::transport
