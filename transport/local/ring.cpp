#include "transport/local/ring.h"

namespace maestro::transport::local {
namespace {

uint64_t cellCount(const ChannelDescription &description) {
  return uint64_t{description.slots} * description.producerRanks.size() * description.postsPerProducer;
}

} // namespace

uint64_t Ring::bytesNeeded(const ChannelDescription &description) {
  return sizeof(Credit) + 2 * sizeof(WaitPoint) + alignBlock(description.name.size() + 1) +
         description.slots * (sizeof(SlotWords) + alignBlock(description.slotBytes)) +
         cellCount(description) * sizeof(Header);
}

Result<Ring> Ring::create(SharedMemory &memory, const Abort &abort, const ChannelDescription &description) {
  MAESTRO_TRY(check(description));
  std::string purpose = "channel '" + description.name + "': ";
  Ring ring;
  ring.slotCount = description.slots;
  ring.payloadStride = alignBlock(description.slotBytes);
  ring.producers = static_cast<uint32_t>(description.producerRanks.size());
  ring.postsPerProducer = description.postsPerProducer;
  MAESTRO_ASSIGN(ring.edgeName, memory.name(description.name));
  MAESTRO_ASSIGN(ring.creditPoint, abort.makeWaitPoint(memory, purpose + "credit"));
  MAESTRO_ASSIGN(ring.arrivalPoint, abort.makeWaitPoint(memory, purpose + "arrivals"));
  MAESTRO_ASSIGN(ring.credit, memory.make<Credit>(1, purpose + "credit"));
  MAESTRO_ASSIGN(ring.words, memory.make<SlotWords>(description.slots, purpose + "slots"));
  MAESTRO_ASSIGN(ring.headers, memory.make<Header>(cellCount(description), purpose + "headers"));
  MAESTRO_ASSIGN(void *payload, memory.allocate(description.slots * ring.payloadStride, purpose + "payload"));
  ring.payloads = static_cast<char *>(payload);
  for (uint64_t slot = 0; slot < ring.slotCount; ++slot)
    ring.setOccupant(slot, slot);
  return ring;
}

} // namespace maestro::transport::local
