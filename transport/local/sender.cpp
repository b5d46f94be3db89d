#include "transport/local/channel_ends.h"

namespace maestro::transport::local {

LocalSender::LocalSender(const Ring &ring, const ChannelDescription &description, uint32_t producer)
    : ring(ring), slotBytes(description.slotBytes), edge(description.edge), epoch(description.epoch),
      producer(producer), rank(description.producerRanks[producer]), postsPerProducer(description.postsPerProducer),
      waits(description.waits), open(description.slots) {}

Status LocalSender::failure(uint64_t sequence, const std::string &text) const {
  return Status::internal("channel '" + std::string(ring.name()) + "' (edge " + std::to_string(edge) +
                          "), producer rank " + std::to_string(rank) + ", sequence " + std::to_string(sequence) + ": " +
                          text);
}

Status LocalSender::requireCredit(uint64_t sequence, const char *what) const {
  uint64_t released = ring.released();
  if (sequence < released)
    return failure(sequence,
                   std::string(what) + " after the consumer has released " + std::to_string(released) + " sequences");
  if (!protocol::mayWrite(sequence, released, ring.slots()))
    return failure(sequence, std::string(what) + " without credit: " + std::to_string(released) + " released, " +
                                 std::to_string(ring.slots()) + " slots; await credit first");
  return {};
}

Status LocalSender::awaitCredit(uint64_t sequence, const Abort &abort) {
  return await(ring.creditWait(), ring, protocol::CreditCondition{sequence}, abort, spin,
               {rank, Activity::AwaitingCredit, ring.name(), sequence, waits});
}

Status LocalSender::write(uint64_t sequence, std::span<const Box> boxes) {
  MAESTRO_TRY(requireCredit(sequence, "writes"));
  void *slot = direct(sequence);
  for (const Box &box : boxes) {
    if (Status status = checkBox(box, slotBytes); !status.isOk())
      return failure(sequence, std::string(status.message()));
    copyBox(box, slot);
  }
  return {};
}

Status LocalSender::post(uint64_t sequence, const Message &message) {
  MAESTRO_TRY(requireCredit(sequence, "posts"));
  uint64_t slot = protocol::slotOf(sequence, ring.slots());
  Open &mine = open[slot];
  if (mine.sequence != sequence)
    mine = {sequence, 0};
  if (mine.posts == postsPerProducer)
    return failure(sequence, "posts more than " + std::to_string(postsPerProducer) + " times");

  Header header;
  header.version = kHeaderVersion;
  header.edge = edge;
  header.sequence = sequence;
  header.step = message.step;
  header.epoch = epoch;
  header.producer = producer;
  header.microBatch = message.microBatch;
  header.post = mine.posts;
  header.rows = message.rows;
  header.bytes = message.bytes;
  header.checksum = checksumOf(header);
  ring.cell(slot, producer, mine.posts++) = header;
  for (protocol::Post machine; !machine.done();)
    machine.step(ring, sequence);
  return {};
}

} // namespace maestro::transport::local
