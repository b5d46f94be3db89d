// Devices' work over time: predicted from a plan, or read from what `maestro-run --trace` wrote. Both have the same
// tasks of the same micro-batches: a trace holds its steps' sample sizes, and the prediction runs the executor's own
// scheduler on them.
//
// maestro-dump's own; it may include the pure parts of both halves (executor/core/topology, wavefront,
// executor/metrics, cost_models), but nothing that needs a device or a compiler.
#pragma once

#include "base/status.h"
#include "executor/core/topology.h"
#include "executor/metrics/trace.h"
#include "plan/plan.h"
#include "plan/print/print.h"

#include <cstdint>
#include <string>
#include <vector>

namespace maestro::timeline {

/// What a device was busy with. Nanoseconds from the timeline's start.
struct Span {
  uint32_t station = 0;    ///< Topology.stations
  uint32_t kind = 0;       ///< metrics::kTaskNames
  uint64_t step = 0;       ///< From 1.
  int64_t microBatch = -1; ///< -1: of the step.
  int64_t startNs = 0, endNs = 0;
  bool isTask() const { return kind < metrics::kMicroBatchTasks; }
};

/// From the end of the updates before it to the end of its own. What runs ahead lies in an earlier window than its
/// step's.
struct Step {
  uint64_t number = 0;
  int64_t startNs = 0, endNs = 0;
  int64_t ns() const { return endNs - startNs; }
};

/// What micro-batches hold along a padded dim beside what their samples have, over all steps of a prediction.
struct Padding {
  uint32_t section = 0, symbol = 0; ///< Plan.sections, Plan.symbols
  double own = 0, padded = 0;
};

struct Timeline {
  std::vector<Span> spans;
  std::vector<Step> steps;      ///< In order.
  std::vector<Padding> padding; ///< Predicted alone: for each section and padded symbol of it.
};

/// A trace of maestro-run.
struct Measured {
  Timeline timeline;
  metrics::TraceRun run;
  std::vector<uint64_t> steps;             ///< Whose sizes are known, and
  std::vector<std::vector<int64_t>> sizes; ///< their samples × Plan.symbols.
};

/// InvalidInput where the file is no trace of a run of this plan.
Result<Measured> readTrace(const std::string &path, const plan::Plan &plan, const executor::Topology &topology);

/// Samples of a few steps: with the sizes of the data that the plan was made for, else those that its workload
/// declares.
Result<std::vector<std::vector<int64_t>>> typicalSizes(const plan::Plan &plan);

/// When each task runs if every device takes its planned time: steps one after the other, what is frozen ahead of them.
Result<Timeline> predict(const plan::Plan &plan, const executor::Topology &topology, const metrics::TraceRun &run,
                         const std::vector<uint64_t> &steps, const std::vector<std::vector<int64_t>> &sizes);

/// A step ends with its last update; where nothing trains, with its last task.
std::vector<Step> windows(const std::vector<Span> &spans);

/// Steps that are neither among the first third, which meet new shapes, nor cut: positions in Timeline.steps.
std::vector<size_t> steadySteps(const Timeline &timeline);
/// The steady step of median length.
size_t typicalStep(const Timeline &timeline);

/// Means over steady steps, in nanoseconds.
struct Usage {
  double stepNs = 0;
  struct Device {
    double busyNs = 0; ///< In tasks, reductions and updates; idle is the rest of the step.
  };
  struct Section {
    double busyNs = 0; ///< Of one of its devices, on average, in this section's tasks.
    double idleNs = 0; ///< Of one of its devices, on average, idle, whatever section it might have worked for.
  };
  std::vector<Device> devices;   ///< By rank.
  std::vector<Section> sections; ///< By Plan.sections.
};
Usage usage(const Timeline &timeline, const executor::Topology &topology, const plan::Plan &plan);

/// A steady step as plan/print shows and judges it.
plan::StepTimes stepTimes(const Timeline &predicted, const Usage &usage);

/// As `maestro-run --trace` writes it.
std::string traceText(const Timeline &timeline, const plan::Plan &plan, const executor::Topology &topology,
                      const metrics::TraceRun &run);

/// A table of predicted beside measured times (`measured` may be null), for terminals.
std::string usageTable(const plan::Plan &plan, const executor::Topology &topology, const Usage &predicted,
                       const Usage *measured);
/// A steady step of each, drawn beneath each other, and the table: part of an HTML page.
std::string timelinesHtml(const plan::Plan &plan, const executor::Topology &topology, const Timeline &predicted,
                          const Timeline *measured);

} // namespace maestro::timeline
