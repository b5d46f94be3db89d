#include "executor/world/channel_state.h"

#include <fmt/format.h>

#include <cstddef>

namespace maestro::executor {

Receiver::Receiver(std::shared_ptr<const ChannelState> state, const transport::Segments &segments, Device &device)
    : state(std::move(state)), device(device), arrivalWords(segments.word(this->state->arrivals)),
      arrivals(this->state->description.slots), releases(this->state->description.slots) {}

Status Receiver::open(const transport::Segments &segments) {
  MAESTRO_ASSIGN(payload, device.adopt(segments.target(state->payload), state->payloadBytes()));
  MAESTRO_ASSIGN(headers, device.adopt(segments.target(state->headers), state->headerBytes()));
  MAESTRO_ASSIGN(words, device.adopt(segments.target(static_cast<const transport::Place &>(state->arrivals)),
                                     state->description.slots * sizeof(transport::Word)));
  for (const transport::WordPlace &place : state->credit)
    credit.push_back(segments.target(place));
  return Status();
}

uint64_t Receiver::slotStride() const { return state->slotStride; }
Address Receiver::slot(uint64_t sequence) const { return payload + state->slotOf(sequence) * state->slotStride; }

Status Receiver::failure(uint64_t sequence, const std::string &text) const {
  return Status::internal(fmt::format("channel '{}' (edge {}), consumer rank {}, sequence {}: {}",
                                      state->description.name, state->description.edge, state->description.consumerRank,
                                      sequence, text));
}

Status Receiver::awaitArrivals(Queue queue, uint64_t sequence, const Expected &expected) {
  uint64_t slot = state->slotOf(sequence), cells = state->cellsPerSlot();
  std::optional<uint64_t> count = arrivals.expect(sequence, expected.posts);
  if (!count)
    return failure(sequence, "awaited out of its slot's turn");
  device.awaitWord(queue, arrivalWords[slot], *count,
                   {state->description.consumerRank, transport::Activity::AwaitingArrivals,
                    state->description.name.c_str(), sequence, transport::LaneKind::Device});
  if (logged == log.size())
    log.emplace_back().cells = std::make_unique<Header[]>(cells);
  Arrival &arrival = log[logged++];
  arrival.sequence = sequence;
  arrival.expected = expected;
  arrival.total = *count;
  static_assert(offsetof(transport::Word, value) == 0 && sizeof(transport::Word::value) == sizeof arrival.counted);
  device.read(queue, &arrival.counted, words + slot * sizeof(transport::Word), sizeof arrival.counted);
  device.read(queue, arrival.cells.get(), headers + slot * cells * sizeof(Header), cells * sizeof(Header));
  return Status();
}

Status Receiver::release(Queue queue, uint64_t sequence) {
  if (!arrivals.hasSeen(sequence))
    return failure(sequence, "released before its arrivals were awaited");
  std::optional<uint64_t> more = releases.release(sequence);
  if (!more)
    return failure(sequence, "released twice, or before its slot was");
  if (*more > 0)
    for (const transport::WordTarget &word : credit)
      device.signal(queue, word, *more);
  return Status();
}

Status Receiver::checkHeaders() {
  size_t count = std::exchange(logged, 0);
  for (size_t i = 0; i < count; ++i)
    MAESTRO_TRY(check(log[i]));
  return Status();
}

Status Receiver::check(const Arrival &arrival) {
  const ChannelDescription &description = state->description;
  uint32_t found = 0;
  for (uint32_t producer = 0; producer < description.producerRanks.size(); ++producer)
    for (uint32_t post = 0; post < description.postsPerProducer; ++post) {
      const Header &header = arrival.cells[state->cell(0, producer, post)];
      // Cells of earlier sequences are left over; a cell that is neither old nor empty is this sequence's, or wrong.
      if (header.version == 0 || (header.sequence < arrival.sequence && header.checksum == checksumOf(header)))
        break;
      MAESTRO_TRY(checkHeader(header, producer, arrival));
      received += header.bytes;
      ++found;
    }
  if (uint64_t more = arrival.counted - arrival.total; more > 0)
    return failure(arrival.sequence,
                   fmt::format("more posts than the schedule has: {} instead of {} ({})", arrival.expected.posts + more,
                               arrival.expected.posts, postsByProducer(arrival)));
  if (found < arrival.expected.posts)
    return failure(arrival.sequence, fmt::format("counted {} posts and found the headers of {} ({}): a post was "
                                                 "counted twice, or for another sequence",
                                                 arrival.expected.posts, found, postsByProducer(arrival)));
  return {};
}

Status Receiver::checkHeader(const Header &header, uint32_t from, const Arrival &arrival) const {
  auto differs = [](const char *what, uint64_t found, uint64_t expected) {
    return fmt::format("{} {} instead of {}", what, found, expected);
  };
  std::string fault;
  if (header.checksum != checksumOf(header))
    fault = "its checksum is wrong";
  else if (header.version != kHeaderVersion)
    fault = differs("version", header.version, kHeaderVersion);
  else if (header.edge != state->description.edge)
    fault = differs("edge", header.edge, state->description.edge);
  else if (header.epoch != state->description.epoch)
    fault = differs("epoch", header.epoch, state->description.epoch);
  else if (header.sequence != arrival.sequence)
    fault = differs("sequence", header.sequence, arrival.sequence);
  else if (header.producer != from)
    fault = differs("producer", header.producer, from);
  else if (header.step != arrival.expected.step)
    fault = differs("step", header.step, arrival.expected.step);
  else if (header.microBatch != arrival.expected.microBatch)
    fault = differs("micro-batch", header.microBatch, arrival.expected.microBatch);
  if (fault.empty())
    return {};
  return failure(arrival.sequence, fmt::format("the header of producer rank {} is not the expected one: {}",
                                               state->description.producerRanks[from], fault));
}

std::string Receiver::postsByProducer(const Arrival &arrival) const {
  std::string text;
  for (uint32_t producer = 0; producer < state->description.producerRanks.size(); ++producer) {
    uint32_t posts = 0;
    for (uint32_t post = 0; post < state->description.postsPerProducer; ++post) {
      const Header &header = arrival.cells[state->cell(0, producer, post)];
      posts += header.version != 0 && header.sequence == arrival.sequence;
    }
    text += fmt::format("{}rank {} posted {}", producer ? ", " : "", state->description.producerRanks[producer], posts);
  }
  return text;
}

} // namespace maestro::executor
