#include "transport/verbs/endpoint.h"

#include "base/bytes.h"

#include <algorithm>

namespace maestro::transport {
namespace {

constexpr uint32_t kMagic = 0x4356564d;              // "MVVC": verbs, the first layout.
constexpr uint8_t kSmallestMtu = 1, kLargestMtu = 5; // 256 to 4096.

} // namespace

std::vector<std::byte> encode(const VerbsEndpoint &endpoint) {
  ByteWriter writer;
  writer.number(kMagic).number(static_cast<uint8_t>(endpoint.isEthernet)).number(endpoint.lid).number(endpoint.mtu);
  writer.block(endpoint.gid).number(static_cast<uint32_t>(endpoint.queues.size()));
  for (const VerbsEndpoint::Queue &queue : endpoint.queues)
    writer.number(queue.firstRank).number(queue.number).number(queue.firstPacket);
  return writer.take();
}

Result<VerbsEndpoint> decodeEndpoint(std::span<const std::byte> bytes) {
  ByteReader reader(bytes);
  if (reader.number<uint32_t>() != kMagic)
    return Status::invalidInput("the endpoint is not one of verbs");
  VerbsEndpoint endpoint;
  auto isEthernet = reader.number<uint8_t>();
  endpoint.isEthernet = isEthernet == 1;
  endpoint.lid = reader.number<uint16_t>();
  endpoint.mtu = reader.number<uint8_t>();
  std::span<const std::byte> gid = reader.block();
  bool good = isEthernet <= 1 && gid.size() == endpoint.gid.size() && endpoint.mtu >= kSmallestMtu &&
              endpoint.mtu <= kLargestMtu;
  if (good)
    std::copy(gid.begin(), gid.end(), endpoint.gid.begin());
  auto count = reader.number<uint32_t>();
  for (uint32_t i = 0; i < count && reader.isOk(); ++i) {
    VerbsEndpoint::Queue queue;
    queue.firstRank = reader.number<uint32_t>();
    queue.number = reader.number<uint32_t>();
    queue.firstPacket = reader.number<uint32_t>();
    good = good && queue.number <= kMost24Bits && queue.firstPacket <= kMost24Bits;
    endpoint.queues.push_back(queue);
  }
  if (!good || !reader.isWhole())
    return Status::invalidInput("the endpoint is damaged, cut off, or has bytes behind its end");
  return endpoint;
}

} // namespace maestro::transport
