// What a worker's queued functions get as their context; private to worker*.cpp.
#pragma once

#include "executor/core/worker.h"

#include <chrono>

namespace maestro::executor {

inline int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Worker::AwaitWork {
  Worker *worker = nullptr;
  const RankTask *task = nullptr;
};
struct Worker::SendWork {
  Worker *worker = nullptr;
  const Send *send = nullptr;
};
struct Worker::ReleaseWork {
  Worker *worker = nullptr;
  uint32_t ring = 0;
  uint64_t sequence = 0;
};
/// Start and end of one task; the end accounts.
struct Worker::StampWork {
  Worker *worker = nullptr;
  TaskSpan span;
  int64_t leastNs = 0; ///< It sleeps until it has taken so long.
  int64_t plannedNs = 0;
  bool started = false;
};
struct Worker::ReduceWork {
  enum class Part : uint8_t { Scatter, Gather, End };
  transport::local::Reduction::Member *member = nullptr;
  Worker *worker = nullptr;
  uint64_t turn = 0;
  Part part = Part::Scatter;
  uint32_t station = 0;
};

} // namespace maestro::executor
