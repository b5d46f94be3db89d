// Over which network the processes of a job write to each other: RDMA where every process reaches every other one, else
// TCP. All decide alike, because each knows what all have found.
#pragma once

#include "executor/core/run.h"
#include "transport/control/control.h"
#include "transport/network/network_fabric.h"
#include "transport/rank_range.h"

#include <map>
#include <memory>
#include <string>

namespace maestro::executor {

struct ClusterFabric {
  std::unique_ptr<transport::NetworkFabric> fabric; ///< Connected; not started.
  std::string note;                                 ///< Why it is not verbs, if that was looked for; or empty.
};

/// Processes with which this one has something to do, and their ranks.
using PeerRanks = std::map<uint32_t, transport::RankRange>;

/// By all processes; who is another one's peer has it as a peer, too. Unavailable, for all and with the same text,
/// where the network that was asked for cannot be used by one of them.
Result<ClusterFabric> openFabric(TransportChoice choice, transport::Control &control, const PeerRanks &peers,
                                 const transport::Segments &segments, const transport::Abort &abort);

} // namespace maestro::executor
