#include "executor/core/cluster_ways.h"

#include "executor/core/cluster_networks.h"

namespace maestro::executor {

Result<ClusterWays> openWays(TransportChoice choice, transport::Control &control, const PeerRanks &peers, World &world,
                             bool bulkLater) {
  if (choice == TransportChoice::Nccl) // What hosts write goes as it does without it.
    choice = TransportChoice::Auto;
  Neighbours neighbours(control, peers, world);
  if (choice == TransportChoice::Auto || choice == TransportChoice::Local)
    MAESTRO_TRY(neighbours.find());
  if (choice == TransportChoice::Local && neighbours.hasOthers())
    return Status::unavailable("--transport local: " +
                               (neighbours.why().empty()
                                    ? "not all processes that write to each other are on one machine"
                                    : neighbours.why()));
  bool isForced = choice == TransportChoice::Verbs || choice == TransportChoice::Libfabric;
  if (!isForced && !neighbours.hasOthers())
    return ClusterWays{nullptr, "shared memory"};

  PeerRanks others = neighbours.others();
  Networks networks(control, others, world, bulkLater);
  std::string notes = neighbours.why().empty() ? "" : "; not shared memory: " + neighbours.why();
  bool isOpen = false;
  if (choice != TransportChoice::Libfabric) {
    MAESTRO_ASSIGN(isOpen, networks.verbs());
    if (!isOpen) {
      std::string why = std::string(networks.why().message());
      if (networks.why().code() == StatusCode::InvalidInput)
        return Status::invalidInput(why);
      if (choice == TransportChoice::Verbs)
        return Status::unavailable("--transport verbs: " + why + "; --transport auto uses TCP where there is no RDMA");
      notes = "; not verbs: " + why + notes;
    }
  }
  if (!isOpen) {
    MAESTRO_ASSIGN(isOpen, networks.libfabric());
    if (!isOpen)
      return Status(networks.why().code(), std::string(networks.why().message()));
  }
  std::string text = networks.name();
  if (neighbours.hasPairs())
    text = "shared memory within a machine, else " + text;
  return ClusterWays{networks.take(), text + notes};
}

} // namespace maestro::executor
