// Where a channel's words, headers and slots lie, and what it is called.
//
//   consumer's segment: arrivals, per slot │ per slot, producer and post: a header │ per slot: payload
//   a producer's:       credit
//
// Each header cell has one writer, and like the payload it is plain memory: the count that follows it is what makes it
// visible.
#pragma once

#include "executor/world/channel.h"
#include "transport/word.h"

namespace maestro::executor {

struct ChannelState {
  ChannelDescription description;
  transport::WordPlace arrivals; ///< Of slot 0; the others' follow.
  transport::Place headers, payload;
  std::vector<transport::WordPlace> credit; ///< By producer.
  uint64_t slotStride = 0;

  uint64_t slotOf(uint64_t sequence) const { return transport::protocol::slotOf(sequence, description.slots); }
  uint64_t cellsPerSlot() const { return description.producerRanks.size() * description.postsPerProducer; }
  uint64_t cell(uint64_t slot, uint32_t producer, uint32_t post) const {
    return slot * cellsPerSlot() + producer * description.postsPerProducer + post;
  }
  uint64_t headerBytes() const { return description.slots * cellsPerSlot() * sizeof(Header); }
  uint64_t payloadBytes() const { return description.slots * slotStride; }
};

} // namespace maestro::executor
