// What a process tells the others of its RDMA port and of the queue pair that it keeps for each of them.
#pragma once

#include "base/status.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace maestro::transport {

/// Numbers of queues and of packets have 24 bits.
inline constexpr uint32_t kMost24Bits = (1u << 24) - 1;

struct VerbsEndpoint {
  /// For one peer.
  struct Queue {
    uint32_t firstRank = 0; ///< The peer's.
    uint32_t number = 0;
    uint32_t firstPacket = 0; ///< A random sequence number of 24 bits, with which this process begins.
  };
  bool isEthernet = true;
  uint16_t lid = 0; ///< On InfiniBand.
  uint8_t mtu = 0;  ///< As ibv_mtu counts.
  std::array<std::byte, 16> gid{};
  std::vector<Queue> queues;
};

std::vector<std::byte> encode(const VerbsEndpoint &endpoint);
/// InvalidInput where the bytes are not one whole endpoint.
Result<VerbsEndpoint> decodeEndpoint(std::span<const std::byte> bytes);

} // namespace maestro::transport
