#include "executor/core/cluster_neighbours.h"

#include "base/bytes.h"

#include <fmt/format.h>

namespace maestro::executor {
namespace {

using Bytes = transport::Control::Bytes;
using Records = std::vector<Bytes>;

struct Summary {
  bool hasPairs = false, hasOthers = false;
  std::string refusal;                       ///< The first.
  std::vector<std::vector<uint32_t>> shares; ///< By process.
};
/// What all have opened.
Summary summarize(const Records &records) {
  Summary all;
  std::vector<std::set<uint32_t>> opens(records.size());
  std::vector<uint32_t> peersOf(records.size());
  for (uint32_t p = 0; p < records.size(); ++p) {
    ByteReader reader(records[p]);
    peersOf[p] = reader.number<uint32_t>();
    if (std::string why = reader.text(); all.refusal.empty())
      all.refusal = std::move(why);
    for (uint32_t left = reader.number<uint32_t>(); left > 0 && reader.isOk(); --left)
      opens[p].insert(reader.number<uint32_t>());
  }
  for (uint32_t p = 0; p < records.size(); ++p) {
    std::vector<uint32_t> &shares = all.shares.emplace_back();
    for (uint32_t other : opens[p])
      if (other < opens.size() && opens[other].contains(p))
        shares.push_back(other);
    all.hasPairs |= !shares.empty();
    all.hasOthers |= shares.size() < peersOf[p];
  }
  return all;
}

} // namespace

Status Neighbours::find() {
  transport::NeighbourCard own = world.neighbourCard();
  ByteWriter card;
  card.text(own.machine).block(encode(own));
  std::map<std::string, std::vector<uint32_t>> byMachine; // In process 0.
  MAESTRO_ASSIGN(Bytes said, control.ask(card.take(), [&](const Records &records, uint32_t process) {
    auto machineOf = [&](uint32_t p) { return ByteReader(records[p]).text(); };
    for (uint32_t p = 0; process == 0 && p < records.size(); ++p)
      byMachine[machineOf(p)].push_back(p);
    ByteWriter writer;
    for (uint32_t p : byMachine[machineOf(process)]) {
      ByteReader reader(records[p]);
      (void)reader.text();
      writer.number(p).block(reader.block());
    }
    return writer.take();
  }));
  for (ByteReader reader(said); !reader.isWhole() && reader.isOk();) {
    auto process = reader.number<uint32_t>();
    std::span<const std::byte> bytes = reader.block();
    if (auto peer = peers.find(process); peer != peers.end())
      MAESTRO_TRY(open(process, peer->second, bytes));
  }
  return agree();
}

PeerRanks Neighbours::others() const {
  PeerRanks left = peers;
  std::erase_if(left, [&](const auto &peer) { return shared.contains(peer.first); });
  return left;
}
Status Neighbours::open(uint32_t process, transport::RankRange ranks, std::span<const std::byte> bytes) {
  auto card = transport::decodeNeighbourCard(bytes);
  if (!card)
    return Status(card.status().code(), control.nameOf(process) + ": " + std::string(card.status().message()));
  auto memory = transport::openNeighbour(*card, ranks, world.reach());
  if (memory)
    opened.emplace(process, Neighbour{std::move(*card), std::move(*memory)});
  else if (memory.status().code() == StatusCode::InvalidInput)
    return Status(StatusCode::InvalidInput, control.nameOf(process) + ": " + std::string(memory.status().message()));
  else if (refusal.empty())
    refusal =
        fmt::format("process {} with {}: {}", control.process(), control.nameOf(process), memory.status().message());
  return Status();
}

/// All opened their neighbours' memory as far as they can: which pairs use it, and what is left anywhere.
Status Neighbours::agree() {
  ByteWriter found;
  found.number(static_cast<uint32_t>(peers.size())).text(refusal).number(static_cast<uint32_t>(opened.size()));
  for (const auto &[process, neighbour] : opened)
    found.number(process);
  Summary all; // In process 0.
  MAESTRO_ASSIGN(Bytes said, control.ask(found.take(), [&](const Records &records, uint32_t process) {
    if (process == 0)
      all = summarize(records);
    ByteWriter writer;
    writer.number<uint8_t>(all.hasPairs).number<uint8_t>(all.hasOthers).text(all.refusal);
    for (uint32_t other : all.shares[process])
      writer.number(other);
    return writer.take();
  }));
  ByteReader reader(said);
  pairsAnywhere = reader.number<uint8_t>() != 0;
  othersAnywhere = reader.number<uint8_t>() != 0;
  refusal = reader.text();
  while (!reader.isWhole() && reader.isOk())
    shared.insert(reader.number<uint32_t>());
  for (auto &[process, neighbour] : opened)
    if (shared.contains(process))
      world.adopt(neighbour.card, std::move(neighbour.memory));
  return Status();
}

} // namespace maestro::executor
