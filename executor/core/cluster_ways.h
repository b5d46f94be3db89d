// How the processes of a job write to each other: through memory between those of one machine; between others over
// RDMA, where all of these reach each other that way, else over TCP. All decide alike, because each knows what all have
// found.
#pragma once

#include "executor/core/cluster_neighbours.h"
#include "executor/core/run.h"
#include "transport/control/control.h"
#include "transport/network/network.h"

#include <memory>
#include <string>

namespace maestro::executor {

struct ClusterWays {
  std::unique_ptr<transport::Network> fabric; ///< Connected, not started; null where this process needs none.
  std::string text; ///< "shared memory within a machine, libfabric … between machines; not verbs: …"
};

/// By all processes; who is another one's peer has it as a peer, too. The world knows the memory of neighbours
/// afterwards. Unavailable, for all and with the same text, where the way that was asked for cannot be used by one of
/// them.
/// `bulkLater`: where bulk lies is told later (core/cluster_bulk.h).
Result<ClusterWays> openWays(TransportChoice choice, transport::Control &control, const PeerRanks &peers, World &world,
                             bool bulkLater);

} // namespace maestro::executor
