#include "transport/local/channel_ends.h"

namespace maestro::transport::local {
namespace {

std::string differs(const char *what, uint64_t found, uint64_t expected) {
  return std::string(what) + " " + std::to_string(found) + " instead of " + std::to_string(expected);
}

} // namespace

LocalReceiver::LocalReceiver(const Ring &ring, const ChannelDescription &description)
    : ring(ring), edge(description.edge), epoch(description.epoch), rank(description.consumerRank),
      postsPerProducer(description.postsPerProducer), waits(description.waits),
      producerRanks(description.producerRanks),
      cellsPerSlot(uint64_t{description.postsPerProducer} * description.producerRanks.size()), found(description.slots),
      cells(description.slots * cellsPerSlot) {}

Status LocalReceiver::failure(uint64_t sequence, const std::string &text) const {
  return Status::internal("channel '" + std::string(ring.name()) + "' (edge " + std::to_string(edge) +
                          "), consumer rank " + std::to_string(rank) + ", sequence " + std::to_string(sequence) + ": " +
                          text);
}

bool LocalReceiver::arrived(uint64_t sequence, const Expected &expected) {
  protocol::ArrivalCondition condition{sequence, expected.posts};
  protocol::Verdict verdict;
  while ((verdict = condition.step(ring)) == protocol::Verdict::Open)
    ;
  return verdict == protocol::Verdict::Yes;
}

Status LocalReceiver::awaitArrivals(uint64_t sequence, const Expected &expected, const Abort &abort) {
  if (ring.occupant(slotOf(sequence)) > sequence)
    return failure(sequence, "awaited after its release");
  MAESTRO_TRY(await(ring.arrivalWait(), ring, protocol::ArrivalCondition{sequence, expected.posts}, abort, spin,
                    {rank, Activity::AwaitingArrivals, ring.name(), sequence, waits}));
  return checkHeaders(sequence, expected);
}

Status LocalReceiver::checkHeaders(uint64_t sequence, const Expected &expected) {
  uint64_t slot = slotOf(sequence);
  uint32_t counted = ring.arrivals(slot);
  if (counted > expected.posts)
    return failure(sequence, "more posts than the schedule has: " + differs("counted", counted, expected.posts) + " (" +
                                 postsByProducer(sequence) + ")");
  Found &here = found[slot];
  here = {sequence, 0};
  for (uint32_t producer = 0; producer < producerRanks.size(); ++producer)
    for (uint32_t post = 0; post < postsPerProducer; ++post) {
      const Header &header = ring.cell(slot, producer, post);
      // Cells of earlier sequences are left over; a cell that is neither old nor empty is this sequence's, or wrong.
      if (header.version == 0 || (header.sequence < sequence && header.checksum == checksumOf(header)))
        break;
      MAESTRO_TRY(checkHeader(header, producer, sequence, expected));
      cells[slot * cellsPerSlot + here.count++] = &header;
    }
  if (here.count != counted)
    return failure(sequence, "counted " + std::to_string(counted) + " posts and found the headers of " +
                                 std::to_string(here.count) + " (" + postsByProducer(sequence) +
                                 "): a post was counted twice, or for another sequence");
  return {};
}

Status LocalReceiver::checkHeader(const Header &header, uint32_t producer, uint64_t sequence,
                                  const Expected &expected) const {
  std::string fault;
  if (header.checksum != checksumOf(header))
    fault = "its checksum is wrong";
  else if (header.version != kHeaderVersion)
    fault = differs("version", header.version, kHeaderVersion);
  else if (header.edge != edge)
    fault = differs("edge", header.edge, edge);
  else if (header.epoch != epoch)
    fault = differs("epoch", header.epoch, epoch);
  else if (header.sequence != sequence)
    fault = differs("sequence", header.sequence, sequence);
  else if (header.producer != producer)
    fault = differs("producer", header.producer, producer);
  else if (header.step != expected.step)
    fault = differs("step", header.step, expected.step);
  else if (header.microBatch != expected.microBatch)
    fault = differs("micro-batch", header.microBatch, expected.microBatch);
  if (fault.empty())
    return {};
  return failure(sequence, "the header of producer rank " + std::to_string(producerRanks[producer]) +
                               " is not the expected one: " + fault);
}

std::string LocalReceiver::postsByProducer(uint64_t sequence) const {
  std::string text;
  for (uint32_t producer = 0; producer < producerRanks.size(); ++producer) {
    uint32_t posts = 0;
    while (posts < postsPerProducer && ring.cell(slotOf(sequence), producer, posts).version != 0 &&
           ring.cell(slotOf(sequence), producer, posts).sequence == sequence)
      ++posts;
    text +=
        (producer ? ", rank " : "rank ") + std::to_string(producerRanks[producer]) + " posted " + std::to_string(posts);
  }
  return text;
}

Status LocalReceiver::release(uint64_t sequence) {
  uint64_t slot = slotOf(sequence), occupant = ring.occupant(slot);
  if (occupant != sequence)
    return failure(sequence, occupant > sequence
                                 ? "released twice"
                                 : "released before its slot was: that still holds " + std::to_string(occupant));
  if (found[slot].sequence != sequence)
    return failure(sequence, "released before its arrivals were awaited");
  if (uint32_t counted = ring.arrivals(slot); counted != found[slot].count)
    return failure(sequence, "a post came after the last one that was expected: " +
                                 differs("counted", counted, found[slot].count));
  for (protocol::Release machine; !machine.done();)
    machine.step(ring, sequence);
  return {};
}

} // namespace maestro::transport::local
