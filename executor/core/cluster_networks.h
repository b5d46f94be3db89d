// Over which network processes write to each other: RDMA where every process reaches all that it writes to, else TCP.
#pragma once

#include "executor/core/cluster_neighbours.h"
#include "transport/control/control.h"
#include "transport/network/network.h"
#include "transport/verbs/verbs.h"

#include <functional>
#include <memory>
#include <span>
#include <string>

namespace maestro::executor {

/// By all processes; `peers` are those to be reached, and may be none here.
class Networks {
public:
  Networks(transport::Control &control, const PeerRanks &peers, const World &world, bool bulkLater)
      : control(control), peers(peers), segments(world.reach()), abort(world.abort()), bulkLater(bulkLater) {}

  // False where one of the processes cannot, and why() is the first that says so, the same in all.
  Result<bool> verbs();
  Result<bool> libfabric();

  const Status &why() const { return refusal; }
  /// Connected, not started; null where this process has nobody to reach.
  std::unique_ptr<transport::Network> take() { return std::move(fabric); }
  /// As the first that has somebody to reach calls it.
  const std::string &name() const { return firstName; }

private:
  using Open = std::function<Result<std::unique_ptr<transport::Network>>()>;
  Result<bool> verbs(const transport::VerbsOptions &options, transport::PortShare share, uint32_t rails);
  Result<bool> open(const Open &openOne);
  transport::VerbsOptions verbsOptions() const;
  struct Ports {
    transport::PortShare share;
    uint32_t rails = 1;
  };
  Result<Ports> portsOfMachine(const transport::VerbsOptions &options);
  Status connect(std::span<const transport::Control::Bytes> cards) const;
  Result<bool> agree(const Status &own);

  transport::Control &control;
  const PeerRanks &peers;
  const transport::Segments &segments;
  const transport::Abort &abort;
  const bool bulkLater;
  std::unique_ptr<transport::Network> fabric;
  std::string firstName;
  bool areOpen = false; ///< All, at the last try; but not all may be reached.
  Status refusal;
};

} // namespace maestro::executor
