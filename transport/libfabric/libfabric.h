// A fabric over libfabric's reliable datagrams: TCP between machines without RDMA.
//
//   any thread: write, put, signal ─▶ a ring a peer ─▶ the fabric's thread: fi_write, fi_writedata ─▶ the peer's
//   segment
//                                                      its completions count at `taken`
//   the peer's thread: a count arrives as remote completion data ─▶ the word in its segment, who waits wakes
//
// A count travels as 32 bits of completion data (the word's number and how much), behind all writes to that peer: where
// the provider keeps writes in order, by that; elsewhere it is held back until what was written before is delivered.
// A put and the count behind it are one message.
#pragma once

#include "base/status.h"
#include "transport/abort.h"
#include "transport/fabric.h"
#include "transport/segments.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::transport {

struct LibfabricOptions {
  std::string address = "127.0.0.1"; ///< Of the interface that is used.
  /// Counts are held back as if the provider did not keep writes in order; for tests.
  bool unordered = false;
};

class LibfabricFabric : public Fabric {
public:
  /// Registers the segments that are here with the provider. Unavailable where the library, or a provider for the
  /// address, is missing.
  static Result<std::unique_ptr<LibfabricFabric>> open(const Segments &segments, const LibfabricOptions &options,
                                                       const Abort &abort);

  /// What another process must know to write here.
  virtual std::vector<std::byte> card() const = 0;
  /// The ranks of another process, from its card. InvalidInput where that is not one, or not theirs.
  virtual Status connect(RankRange ranks, std::span<const std::byte> card) = 0;
  /// From now on things move.
  virtual Status start() = 0;
  /// Such as "libfabric tcp;ofi_rxm over eth0 (10.0.0.2)".
  virtual std::string name() const = 0;
};

} // namespace maestro::transport
