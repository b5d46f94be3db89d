// How a parameter's values, which lie in parts at the ranks that hold them, come to the one that
// saves.
#include "executor/core/job.h"

#include "executor/core/shard.h"

#include <algorithm>

namespace maestro::executor {

namespace fb = plan::fb;

Status Job::gather(fb::BindingKind kind, uint32_t parameter, const TakePiece &take) {
  uint32_t source = holder(kind, parameter);
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
          gatherStretch({kind, parameter, source + part, begin, end},
                        [&, band = band](std::span<const std::byte> piece) { return joiner.add(band, part, piece); }));
    }
  return Status();
}

Status Job::gatherStretch(const Stretch &stretch, const TakePiece &take) {
  bool rootHolds = seating.atRoot.has(facts.stations[stretch.source].rank);
  if (isRoot() && rootHolds)
    return readInPieces(station(stretch.source).instance(), device(stretch.source), stretch.kind, stretch.parameter,
                        take, stretch.begin, stretch.end);
  if (rootHolds)
    return Status();
  uint64_t first = gathered;
  gathered += (stretch.end - stretch.begin + kPieceBytes - 1) / kPieceBytes;
  if (isHere(stretch.source))
    return sendPieces(first, stretch);
  return isRoot() ? receivePieces(first, stretch, take) : Status();
}

/// Straight from the parameter's place.
Status Job::sendPieces(uint64_t first, const Stretch &stretch) {
  Device &device = this->device(stretch.source);
  uint32_t rank = facts.stations[stretch.source].rank;
  std::unique_ptr<Sender> &gatherSender = gatherSenders[rank];
  if (!gatherSender) {
    MAESTRO_ASSIGN(gatherSender, world->gatherSender(rank, device));
  }
  MAESTRO_ASSIGN(Address address, boundAddress(station(stretch.source).instance(), stretch.kind, stretch.parameter));
  uint64_t sequence = first;
  for (uint64_t offset = stretch.begin; offset < stretch.end; offset += kPieceBytes, ++sequence) {
    Box piece = Box::contiguous(offset, 0, std::min<uint64_t>(kPieceBytes, stretch.end - offset));
    gatherSender->awaitCredit(Queue::Copy, sequence);
    MAESTRO_TRY(
        gatherSender->send(Queue::Copy, sequence, address, {&piece, 1}, {0, stretch.parameter, 0, piece.elementBytes}));
  }
  return device.drain();
}

Status Job::receivePieces(uint64_t first, const Stretch &stretch, const TakePiece &take) {
  Device &device = workers[world->root()]->device();
  if (!gatherReceiver) {
    MAESTRO_ASSIGN(gatherReceiver, world->gatherReceiver(device));
    gatheredPiece.resize(kPieceBytes);
  }
  uint64_t bytes = stretch.end - stretch.begin;
  for (uint64_t done = 0, sequence = first; done < bytes; done += kPieceBytes, ++sequence) {
    uint64_t size = std::min<uint64_t>(kPieceBytes, bytes - done);
    MAESTRO_TRY(gatherReceiver->awaitArrivals(Queue::Copy, sequence, {1, 0, stretch.parameter}));
    device.read(Queue::Copy, gatheredPiece.data(), gatherReceiver->slot(sequence), size);
    MAESTRO_TRY(gatherReceiver->release(Queue::Copy, sequence));
    MAESTRO_TRY(device.drain());
    MAESTRO_TRY(gatherReceiver->checkHeaders());
    MAESTRO_TRY(take({gatheredPiece.data(), size}));
  }
  return Status();
}

} // namespace maestro::executor
