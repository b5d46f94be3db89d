// How a parameter's values, which lie in parts at the ranks that hold them, come to the one that
// takes them.
#include "executor/core/job.h"

#include "executor/core/shard.h"

#include <algorithm>

namespace maestro::executor {

namespace fb = plan::fb;

Status Job::gather(const Gathering &gathering, const TakePiece &take) {
  const auto &[kind, parameter, source, taker] = gathering;
  const fb::Executable &table = facts.executable(source);
  Shard shard = shardOf(plan, table, {0, facts.stations[source].members, nullptr}, kind, parameter);
  size_t elementBytes = 4;
  for (const fb::Binding *binding : *table.bindings())
    if (binding->kind() == kind && binding->index() == parameter)
      elementBytes = byteSize(static_cast<DType>(table.buffers()->Get(binding->buffer())->dtype()));
  PartJoiner joiner(shard, elementBytes, take);
  for (uint64_t band = 0; band < joiner.bands(); ++band)
    for (uint32_t part = 0; part < shard.count; ++part) {
      auto [begin, end] = joiner.range(band);
      MAESTRO_TRY(
          gatherStretch({kind, parameter, source + part, taker, begin, end},
                        [&, band = band](std::span<const std::byte> piece) { return joiner.add(band, part, piece); }));
    }
  return Status();
}

Status Job::gatherStretch(const Stretch &stretch, const TakePiece &take) {
  bool takes = seatTable.here().has(stretch.taker);
  if (seatTable.areTogether(facts.stations[stretch.source].rank, stretch.taker))
    return takes ? readInPieces(station(stretch.source).instance(), device(stretch.source), stretch.kind,
                                stretch.parameter, take, stretch.begin, stretch.end)
                 : Status();
  uint64_t &pieces = collections[stretch.taker].pieces;
  uint64_t first = pieces;
  pieces += (stretch.end - stretch.begin + kPieceBytes - 1) / kPieceBytes;
  if (isHere(stretch.source))
    return sendPieces(first, stretch);
  return takes ? receivePieces(first, stretch, take) : Status();
}

/// Straight from the parameter's place.
Status Job::sendPieces(uint64_t first, const Stretch &stretch) {
  Device &device = this->device(stretch.source);
  uint32_t rank = facts.stations[stretch.source].rank;
  std::unique_ptr<Sender> &sender = collections[stretch.taker].senders[rank];
  if (!sender) {
    MAESTRO_ASSIGN(sender, world->pieceSender(stretch.taker, rank, device));
  }
  MAESTRO_ASSIGN(Address address, boundAddress(station(stretch.source).instance(), stretch.kind, stretch.parameter));
  uint64_t sequence = first;
  for (uint64_t offset = stretch.begin; offset < stretch.end; offset += kPieceBytes, ++sequence) {
    Box piece = Box::contiguous(offset, 0, std::min<uint64_t>(kPieceBytes, stretch.end - offset));
    sender->awaitCredit(Queue::Copy, sequence);
    MAESTRO_TRY(
        sender->send(Queue::Copy, sequence, address, {&piece, 1}, {0, stretch.parameter, 0, piece.elementBytes}));
  }
  return device.drain();
}

Status Job::receivePieces(uint64_t first, const Stretch &stretch, const TakePiece &take) {
  Device &device = workers[stretch.taker]->device();
  auto &[pieces, senders, receiver, buffer] = collections[stretch.taker];
  if (!receiver) {
    MAESTRO_ASSIGN(receiver, world->pieceReceiver(stretch.taker, device));
    buffer.resize(kPieceBytes);
  }
  uint64_t bytes = stretch.end - stretch.begin;
  for (uint64_t done = 0, sequence = first; done < bytes; done += kPieceBytes, ++sequence) {
    uint64_t size = std::min<uint64_t>(kPieceBytes, bytes - done);
    MAESTRO_TRY(receiver->awaitArrivals(Queue::Copy, sequence, {1, 0, stretch.parameter}));
    device.read(Queue::Copy, buffer.data(), receiver->slot(sequence), size);
    MAESTRO_TRY(receiver->release(Queue::Copy, sequence));
    MAESTRO_TRY(device.drain());
    MAESTRO_TRY(receiver->checkHeaders());
    MAESTRO_TRY(take({buffer.data(), size}));
  }
  return Status();
}

} // namespace maestro::executor
