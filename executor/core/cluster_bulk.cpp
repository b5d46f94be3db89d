#include "executor/core/cluster_bulk.h"

#include "executor/core/peer_cards.h"

#include <vector>

namespace maestro::executor {

std::set<uint32_t> farBulkPeers(const World &world, const transport::Control &control) {
  const transport::Segments &segments = world.reach();
  std::set<uint32_t> processes;
  for (uint32_t rank : world.bulkPeersOf(segments.ranksHere()))
    if (!segments.isMapped(rank))
      processes.insert(transport::processOf(rank, control.processes(), segments.ranks()));
  return processes;
}

Status tellBulk(const World &world, transport::Control &control, transport::Network *network) {
  const transport::Segments &segments = world.reach();
  std::set<uint32_t> far = farBulkPeers(world, control);
  std::vector<uint32_t> peers(far.begin(), far.end());
  if (network && !peers.empty())
    for (uint32_t rank = segments.ranksHere().first; rank < segments.ranksHere().end; ++rank)
      MAESTRO_TRY(network->placeHostBulk(rank));
  transport::Control::Bytes own = network ? network->bulkCard() : transport::Control::Bytes();
  MAESTRO_ASSIGN(auto cards, exchangeCards(control, own, peers));
  for (size_t i = 0; i < peers.size(); ++i)
    MAESTRO_TRY(network->connectBulk(transport::ranksOf(peers[i], control.processes(), segments.ranks()), cards[i])
                    .withContext(control.nameOf(peers[i])));
  return Status();
}

} // namespace maestro::executor
