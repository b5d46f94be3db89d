// What a queue sends over a fabric, staged in pinned memory until the fabric has taken it.
#pragma once

#include "executor/device/cuda/ring.h"
#include "transport/fabric.h"
#include "transport/wait.h"

#include <array>

namespace maestro::executor {

/// Threads: the host's.
class Outgoing {
public:
  Outgoing(PinnedBlock block, transport::Fabric &fabric) : ring(std::move(block)), fabric(fabric) {
    fabric.addSource(ring.memory());
  }
  ~Outgoing() { fabric.removeSource(ring.memory()); }

  /// Room for the next write, which counts at taken(); waits until there is some. A failure is the job's.
  Result<std::byte *> take(uint64_t bytes, const transport::Abort &abort, uint32_t rank);
  transport::Word &taken() { return takenWord; }

private:
  static constexpr uint64_t kWrites = 1024; ///< Under way.
  void giveBack();

  PinnedRing ring;
  transport::Fabric &fabric;
  transport::Word takenWord;
  std::array<uint64_t, kWrites> ends{}; ///< By write: of its piece.
  uint64_t writes = 0, returned = 0;
  transport::Spin spin;
};

} // namespace maestro::executor
