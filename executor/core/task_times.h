// When a rank's tasks ran: the device tells when each begins and has ended, and from that come busy times, traces, what
// the watcher reads, and under --adapt what is compared with the plan.
//
// Threads: the host's begins and ends tasks while it fills the queue, the device's calls onSpan(). What they collect is
// read when the device is idle.
#pragma once

#include "executor/core/topology.h"
#include "executor/core/world.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace maestro::executor {

/// What a device was busy with, in steady-clock nanoseconds.
struct TaskSpan {
  enum class Kind : uint8_t { Forward, Backward, WeightGradient, Reduce, Norm, Update }; ///< Names: metrics::kTaskNames
  uint32_t station = 0, microBatch = plan::kNone;                                        ///< kNone: of the step.
  Kind kind = Kind::Forward;
  uint64_t step = 0;
  int64_t startNs = 0, endNs = 0;
};

class TaskTimes {
public:
  /// With `rehearses` a task takes its planned time: the device rests until then.
  TaskTimes(const Topology &topology, const World &world, uint32_t rank, size_t executables, bool rehearses);

  /// Forgets the last step's tasks, which must have ended. Those of an evaluation between steps are not recorded.
  void beginStep(uint64_t step, bool isRecorded = true);
  /// A task on Queue::Compute: what is queued between the two. Ends before the next begins.
  void begin(Device &device, uint32_t station, uint32_t microBatch, TaskSpan::Kind kind, int64_t plannedNs);
  void end(Device &device);
  /// From the device's thread.
  void onSpan(const Span &span, bool hasEnded);

  /// The micro-batch whose task the device runs, or kNone; for the device's thread.
  uint32_t running() const { return runningMicroBatch; }

  void collect(size_t capacity) { spans.reserve(capacity); }
  bool collects() const { return spans.size() < spans.capacity(); }
  std::span<const TaskSpan> collected() const { return spans; }

  /// Nanoseconds of the tasks since the last clear(), by executable, forward then backward: as measured, and as
  /// expect() was told.
  std::span<const double> measured() const { return measuredNs; }
  std::span<const double> expected() const { return expectedNs; }
  void expect(uint32_t station, bool forward, int64_t plannedNs);
  void clear();

private:
  struct Task : Span {
    TaskSpan what;
    int64_t plannedNs = 0;
  };
  void report(const Task &task) const;
  size_t index(uint32_t station, bool forward) const {
    return 2 * topology.stations[station].executable + (forward ? 0 : 1);
  }

  const Topology &topology;
  const World &world;
  uint32_t rank;
  bool rehearses;
  uint64_t step = 0;
  bool isRecorded = true;
  std::deque<Task> tasks; ///< As many as a step ever had: they stay where they are.
  size_t begun = 0;       ///< In this step.
  uint32_t runningMicroBatch = plan::kNone;
  std::vector<TaskSpan> spans;
  std::vector<double> measuredNs, expectedNs;
};

} // namespace maestro::executor
