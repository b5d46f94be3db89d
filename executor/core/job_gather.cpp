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
  Shard shard = shardOf(plan, table, {0, facts.stations[source].members, nullptr, nullptr}, kind, parameter);
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
  bool rootHolds = facts.stations[stretch.source].rank == wiring->root();
  if (!options.rank || (isRoot() && rootHolds))
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

Status Job::sendPieces(uint64_t first, const Stretch &stretch) {
  const auto &members = wiring->trainingRanks;
  auto member = static_cast<size_t>(std::find(members.begin(), members.end(), *options.rank) - members.begin());
  transport::Sender &sender = *wiring->gather.senders[member];
  uint64_t sequence = first;
  auto send = [&](std::span<const std::byte> piece) -> Status {
    MAESTRO_TRY(sender.awaitCredit(sequence, *wiring->abort));
    transport::Box box = transport::Box::contiguous(piece.data(), 0, piece.size());
    MAESTRO_TRY(sender.write(sequence, {&box, 1}));
    return sender.post(sequence++, {0, stretch.parameter, 0, piece.size()});
  };
  return readInPieces(station(stretch.source).instance(), device(stretch.source), stretch.kind, stretch.parameter, send,
                      stretch.begin, stretch.end);
}

Status Job::receivePieces(uint64_t first, const Stretch &stretch, const TakePiece &take) {
  transport::Receiver &receiver = *wiring->gather.receiver;
  uint64_t bytes = stretch.end - stretch.begin;
  for (uint64_t done = 0, sequence = first; done < bytes; ++sequence) {
    MAESTRO_TRY(receiver.awaitArrivals(sequence, {1, 0, stretch.parameter}, *wiring->abort));
    uint64_t size = receiver.header(sequence, 0).bytes;
    MAESTRO_TRY(take({static_cast<const std::byte *>(receiver.slot(sequence)), size}));
    MAESTRO_TRY(receiver.release(sequence));
    done += size;
  }
  return Status();
}

} // namespace maestro::executor
