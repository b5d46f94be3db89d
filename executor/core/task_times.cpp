#include "executor/core/task_times.h"

#include "executor/metrics/trace.h"

#include <algorithm>

namespace maestro::executor {

TaskTimes::TaskTimes(const Topology &topology, const World &world, uint32_t rank, size_t executables, bool rehearses)
    : topology(topology), world(world), rank(rank), rehearses(rehearses), measuredNs(2 * executables),
      expectedNs(2 * executables) {}

void TaskTimes::beginStep(uint64_t newStep, bool records) {
  step = newStep;
  isRecorded = records;
  begun = 0;
}

void TaskTimes::begin(Device &device, uint32_t station, uint32_t microBatch, TaskSpan::Kind kind, int64_t plannedNs) {
  if (begun == tasks.size())
    tasks.emplace_back();
  Task &task = tasks[begun++];
  task.leastNs = rehearses ? plannedNs : 0;
  task.what = {station, microBatch, kind, step, 0, 0};
  task.plannedNs = plannedNs;
  device.begin(Queue::Compute, task);
}

void TaskTimes::end(Device &device) { device.end(Queue::Compute, tasks[begun - 1]); }

void TaskTimes::onSpan(const Span &span, bool hasEnded) {
  const Task &task = static_cast<const Task &>(span);
  bool isMicroBatch = task.what.kind <= TaskSpan::Kind::WeightGradient;
  if (!hasEnded) {
    runningMicroBatch = isMicroBatch ? task.what.microBatch : plan::kNone;
    if (task.what.kind != TaskSpan::Kind::Reduce)
      report(task);
    return;
  }
  runningMicroBatch = plan::kNone;
  if (!isRecorded)
    return;
  int64_t ns = span.endNs - span.startNs;
  world.counters().devices[rank].fetch_add(ns, std::memory_order_relaxed);
  if (isMicroBatch) {
    world.counters().stations[task.what.station].fetch_add(ns, std::memory_order_relaxed);
    measuredNs[index(task.what.station, task.what.kind == TaskSpan::Kind::Forward)] += static_cast<double>(ns);
  }
  if (spans.size() < spans.capacity()) {
    spans.push_back(task.what);
    spans.back().startNs = span.startNs;
    spans.back().endNs = span.endNs;
  }
}

/// To whoever watches: which task runs, and how long each of its kernels may take.
void TaskTimes::report(const Task &task) const {
  if (topology.ranks < 2)
    return;
  const transport::Progress &progress = world.abort().progress();
  progress.expect(rank, transport::LaneKind::Device, task.plannedNs);
  progress.report(rank, transport::LaneKind::Device, transport::Activity::Running,
                  metrics::kTaskNames[static_cast<size_t>(task.what.kind)].data(), task.what.microBatch);
}

void TaskTimes::expect(uint32_t station, bool forward, int64_t plannedNs) {
  expectedNs[index(station, forward)] += static_cast<double>(plannedNs);
}

void TaskTimes::clear() {
  std::fill(measuredNs.begin(), measuredNs.end(), 0);
  std::fill(expectedNs.begin(), expectedNs.end(), 0);
}

} // namespace maestro::executor
