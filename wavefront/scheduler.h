// The wavefront scheduler.
#pragma once

#include "wavefront/schedule.h"

#include <cstdint>
#include <memory>

namespace maestro::wavefront {

enum class Order : uint8_t {
  Wavefront, ///< Regroups and reorders samples.
  FileOrder, ///< The baseline: micro-batches in file order, replicas in turn, each station backward-first.
};

/// Keeps its memory between steps: scheduling problems no larger than before allocates nothing. One thread at a time.
class Scheduler {
public:
  /// Parts of choices with a bit in `fixedParts` (by choiceParts()) keep their defaults: so is measured what they
  /// bring. No more than `maxNsPerTask` is spent on a schedule for each task of it, however far it is from its bound:
  /// for those who rank many problems.
  explicit Scheduler(uint64_t fixedParts = 0, int64_t maxNsPerTask = INT64_MAX);
  ~Scheduler();
  /// Requires check(problem). The result satisfies verify().
  void run(const Problem &problem, Order order, Schedule &schedule);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace maestro::wavefront
