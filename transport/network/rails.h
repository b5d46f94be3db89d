// Several networks of one process side by side, one an RDMA port: its rails.
//
// A rank of another process is always written to over the same rail, by its place in its process, so that what one
// thread gives for a rank keeps its order. In processes with a rank a GPU, GPU i of a machine writes to GPU i of
// another over the port that both have next to them.
#pragma once

#include "transport/network/network.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace maestro::transport {

/// Which of the rails of its process carries what is written to a rank; the same number in all processes.
struct Rail {
  uint32_t number = 0, count = 1;
  bool carries(uint32_t rank, RankRange ofProcess) const { return (rank - ofProcess.first) % count == number; }
  /// The first rank of a process that it carries, which has at least as many ranks as there are rails.
  uint32_t firstOf(RankRange ofProcess) const { return ofProcess.first + number; }
};

/// What `openOne` opens for each rail, as one network.
Result<std::unique_ptr<Network>> openRails(uint32_t count,
                                           const std::function<Result<std::unique_ptr<Network>>(Rail)> &openOne);

} // namespace maestro::transport
