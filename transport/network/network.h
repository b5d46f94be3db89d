// A fabric between processes over a network, as who opens it sees it: addresses are exchanged, then things move.
#pragma once

#include "base/status.h"
#include "transport/fabric.h"
#include "transport/rank_range.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace maestro::transport {

class Network : public Fabric {
public:
  // ---- before things move, by one thread

  /// What another process must know to write here.
  virtual std::vector<std::byte> card() const = 0;
  /// The ranks of another process, from its card; `name` is the process's in messages. InvalidInput where that is not
  /// one, or not theirs.
  virtual Status connect(RankRange ranks, const std::string &name, std::span<const std::byte> card) = 0;
  /// Whether every peer can be written to. When all have connected to all.
  virtual Status probe() { return Status(); }
  /// From now on things move.
  virtual Status start() = 0;
  /// Such as "libfabric tcp;ofi_rxm over eth0 (10.0.0.2)".
  virtual std::string name() const = 0;

  // ---- memory of devices, which the network's hardware reads and writes by itself; by one thread

  /// Whether it can, shown by this piece, which it forgets again. Unavailable with why not.
  virtual Status tryDevice(const DeviceMemory &) {
    return Status::unavailable(name() + " moves memory of hosts alone");
  }
  /// The bulk of a rank that is here lies there, and others may write to it, until removeBulk(). Unavailable where the
  /// hardware refuses.
  virtual Status placeBulk(uint32_t rank, const DeviceMemory &memory) {
    (void)rank;
    return tryDevice(memory);
  }
  virtual void removeBulk(uint32_t) {}
  /// It lies behind the host part of its segment, unless it was placed on a device. To be said only where it was not
  /// told with the segment (VerbsOptions).
  virtual Status placeHostBulk(uint32_t) { return Status(); }
  /// What others must know to write to the bulk of ranks that are here, as it was placed; and that of another process's
  /// ranks, from its card.
  virtual std::vector<std::byte> bulkCard() const { return {}; }
  virtual Status connectBulk(RankRange, std::span<const std::byte>) { return Status(); }
  /// From now on write() takes addresses of devices.
  virtual void readDevices() {}

  // ---- by any thread

  /// What the network's own counters say of trouble since it was opened, such as "packet_seq_err 3"; empty: nothing, or
  /// it has none.
  virtual std::string troubles() const { return ""; }
};

} // namespace maestro::transport
