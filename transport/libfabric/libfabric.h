// A fabric over libfabric's reliable datagrams: TCP between machines without RDMA, and networks that only libfabric
// reaches: AWS's EFA, HPE's Slingshot (CXI).
//
// A count is remote completion data: where the provider keeps writes in order, behind them by that; elsewhere it is
// held back until what was written before is delivered. A put and the count behind it are one message.
#pragma once

#include "transport/abort.h"
#include "transport/network/network.h"
#include "transport/segments.h"

#include <memory>
#include <string>

namespace maestro::transport {

struct LibfabricOptions {
  std::string address = "127.0.0.1"; ///< Of the interface that is used; for providers that have IP addresses.
  /// As fi_info names it, such as "efa", "cxi", "verbs;ofi_rxm"; empty: the first of these that is here: EFA, CXI, TCP.
  std::string provider;
  /// Counts are held back as if the provider did not keep writes in order; for tests.
  bool unordered = false;
};

/// Registers the segments that are here with the provider; what is written from, where the provider wants that, when it
/// is first written from. Unavailable where the library, or a provider for the address, is missing.
Result<std::unique_ptr<Network>> openLibfabric(const Segments &segments, const LibfabricOptions &options,
                                               const Abort &abort);

} // namespace maestro::transport
