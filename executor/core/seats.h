// Which ranks are where, as a process of several sees it.
#pragma once

#include "transport/rank_range.h"

#include <cstdint>

namespace maestro::executor {

struct Seats {
  uint32_t ranks = 0, processes = 1;
  uint32_t process = 0;  ///< This one.
  bool isForked = false; ///< All processes share one end of the job; else each has its own.
  bool watches = true;   ///< This process looks for who holds the others up.

  /// Threads of this process.
  transport::RankRange here() const { return transport::ranksOf(process, processes, ranks); }
  /// Of the process in which the rank is.
  transport::RankRange beside(uint32_t rank) const {
    return transport::ranksOf(transport::processOf(rank, processes, ranks), processes, ranks);
  }
  bool areTogether(uint32_t one, uint32_t other) const {
    return transport::processOf(one, processes, ranks) == transport::processOf(other, processes, ranks);
  }
};

} // namespace maestro::executor
