// A channel's ring in memory that its ranks share.
//
//   arrivals │ credit │ per slot, producer and post: a header │ per slot: payload
//
// Each header cell has one writer, and like the payload it is plain memory: the count that follows it is what makes it
// visible.
#pragma once

#include "executor/world/channel.h"
#include "transport/word.h"

namespace maestro::executor {

struct ChannelState {
  ChannelDescription description;
  const char *name = nullptr;
  transport::Word *arrivals = nullptr; ///< By slot.
  transport::Word *credit = nullptr;   ///< By producer.
  Header *headers = nullptr;
  std::byte *payload = nullptr;
  uint64_t slotStride = 0;

  uint64_t slotOf(uint64_t sequence) const { return transport::protocol::slotOf(sequence, description.slots); }
  uint64_t cellsPerSlot() const { return description.producerRanks.size() * description.postsPerProducer; }
  uint64_t cell(uint64_t slot, uint32_t producer, uint32_t post) const {
    return slot * cellsPerSlot() + producer * description.postsPerProducer + post;
  }
};

} // namespace maestro::executor
