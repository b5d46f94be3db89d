// A fabric over RDMA (rdma-core): InfiniBand, RoCE, Soft-RoCE.
//
// One reliable connected queue pair for each other process, and one-sided writes on it. A queue pair keeps its order,
// so a count is a write-with-immediate behind what it counts, and nobody waits for anything; a put and the count behind
// it are one message. Ranks of a process share the queue pair: order is promised between two ranks only, and fewer are
// faster. Receives for the counts lie in one queue for all peers; a peer that finds none tries again for as long as the
// control connection believes in this process.
//
// Segments are registered at the start, other memory when something is first written from it; others may write, and
// nothing else, and segments alone. Memory of GPUs is registered by dma-buf (regions.h): bulk that lies there has a key
// of its own, and what a write reads there has, too.
#pragma once

#include "transport/abort.h"
#include "transport/network/rails.h"
#include "transport/segments.h"
#include "transport/verbs/port.h"

#include <memory>
#include <string>
#include <vector>

namespace maestro::transport {

struct VerbsOptions {
  std::string address = "127.0.0.1"; ///< Of the interface that the job uses.
  std::string device;                ///< As MAESTRO_IB_DEVICE says; empty: the best there is.
  bool onlyAddress = false;          ///< RoCE that has another address is not used, unless `device` names it.
  PortShare share;                   ///< Of equally good ports.
  Rail rail;                         ///< What this one carries.
  std::vector<RankRange> peers;      ///< The ranks of every other process.
  /// Where bulk lies is said later (Network::placeBulk), as devices may have it: memory of the host that nobody uses is
  /// not locked for it.
  bool bulkLater = false;
};

/// How many equally good ports there are. Unavailable and InvalidInput as openVerbs().
Result<uint32_t> countVerbsPorts(const VerbsOptions &options);

/// Unavailable where the library, a device or a port is missing, with what there is; InvalidInput where `device` cannot
/// be read.
Result<std::unique_ptr<Network>> openVerbs(const Segments &segments, const VerbsOptions &options, const Abort &abort);

} // namespace maestro::transport
