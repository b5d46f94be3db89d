// A channel's ring in shared memory, and the port through which protocol.h sees its words.
//
//   released │ per slot: occupant, arrivals │ per slot, producer and post: a header │ per slot: payload
//
// Each header cell has one writer, and like the payload it is plain memory: the count that follows it is what makes it
// visible.
#pragma once

#include "transport/channel.h"
#include "transport/protocol.h"
#include "transport/shared_memory.h"

#include <atomic>
#include <cstdint>

namespace maestro::transport::local {

class Ring {
public:
  static Result<Ring> create(SharedMemory &memory, const Abort &abort, const ChannelDescription &description);
  /// What create() takes of the shared memory.
  static uint64_t bytesNeeded(const ChannelDescription &description);

  // The port of protocol.h.
  uint64_t slots() const { return slotCount; }
  uint64_t released() const { return credit->load(); }
  void setReleased(uint64_t count) { credit->store(count); }
  uint64_t occupant(uint64_t slot) const { return words[slot].occupant.load(); }
  void setOccupant(uint64_t slot, uint64_t sequence) { words[slot].occupant.store(sequence); }
  uint32_t arrivals(uint64_t slot) const { return words[slot].arrivals.load(); }
  void addArrival(uint64_t slot) { words[slot].arrivals.fetch_add(1); }
  void clearArrivals(uint64_t slot) { words[slot].arrivals.store(0); }
  WaitPoint &creditWait() { return *creditPoint; }
  WaitPoint &arrivalWait() { return *arrivalPoint; }

  Header &cell(uint64_t slot, uint32_t producer, uint32_t post) const {
    return headers[(slot * producers + producer) * postsPerProducer + post];
  }
  char *payload(uint64_t slot) const { return payloads + slot * payloadStride; }
  const char *name() const { return edgeName; }

private:
  struct alignas(64) SlotWords {
    std::atomic<uint64_t> occupant{0};
    std::atomic<uint32_t> arrivals{0};
  };
  struct alignas(64) Credit : std::atomic<uint64_t> {
    Credit() : std::atomic<uint64_t>(0) {}
  };

  uint64_t slotCount = 0, payloadStride = 0;
  uint32_t producers = 0, postsPerProducer = 0;
  Credit *credit = nullptr;
  SlotWords *words = nullptr;
  Header *headers = nullptr;
  char *payloads = nullptr;
  WaitPoint *creditPoint = nullptr, *arrivalPoint = nullptr;
  const char *edgeName = nullptr;
};

} // namespace maestro::transport::local
