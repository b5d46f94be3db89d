#include "executor/world/channel_state.h"

#include <fmt/format.h>

namespace maestro::executor {

Sender::Sender(std::shared_ptr<const ChannelState> state, const transport::Segments &segments, uint32_t producer,
               Device &device)
    : state(std::move(state)), producer(producer), device(device), credit(segments.word(this->state->credit[producer])),
      posted(this->state->description.slots) {
  for (uint32_t slot = 0; slot < this->state->description.slots; ++slot)
    arrivals.push_back(segments.target(this->state->arrivals + slot));
}

Status Sender::open(const transport::Segments &segments) {
  MAESTRO_ASSIGN(payload, device.adopt(segments.target(state->payload), state->payloadBytes()));
  MAESTRO_ASSIGN(headers, device.adopt(segments.target(state->headers), state->headerBytes()));
  return Status();
}

Status Sender::failure(uint64_t sequence, const std::string &text) const {
  const ChannelDescription &description = state->description;
  return Status::internal(fmt::format("channel '{}' (edge {}), producer rank {}, sequence {}: {}", description.name,
                                      description.edge, description.producerRanks[producer], sequence, text));
}

void Sender::awaitCredit(Queue queue, uint64_t sequence) {
  const ChannelDescription &description = state->description;
  if (uint64_t least = transport::protocol::creditFor(sequence, description.slots); least > 0)
    device.awaitWord(queue, *credit, least,
                     {description.producerRanks[producer], transport::Activity::AwaitingCredit,
                      description.name.c_str(), sequence, transport::LaneKind::Device});
}

Status Sender::send(Queue queue, uint64_t sequence, Address source, std::span<const Box> boxes,
                    const Message &message) {
  const ChannelDescription &description = state->description;
  uint64_t slot = state->slotOf(sequence);
  Open &mine = posted[slot];
  if (mine.sequence != sequence)
    mine = {sequence, 0};
  if (mine.posts == description.postsPerProducer)
    return failure(sequence, fmt::format("posts more than {} times", description.postsPerProducer));
  for (const Box &box : boxes)
    if (Status status = checkBox(box, description.slotBytes); !status.isOk())
      return failure(sequence, std::string(status.message()));
  for (const Box &box : boxes)
    device.copy(queue, payload + slot * state->slotStride, source, box);
  Header header;
  header.version = kHeaderVersion;
  header.edge = description.edge;
  header.sequence = sequence;
  header.step = message.step;
  header.epoch = description.epoch;
  header.producer = producer;
  header.microBatch = message.microBatch;
  header.post = mine.posts;
  header.rows = message.rows;
  header.bytes = message.bytes;
  header.checksum = checksumOf(header);
  device.put(queue, headers + state->cell(slot, producer, mine.posts++) * sizeof(Header),
             std::as_bytes(std::span(&header, 1)));
  device.signal(queue, arrivals[slot], 1);
  return {};
}

} // namespace maestro::executor
