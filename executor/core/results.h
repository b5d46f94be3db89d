// What a run leaves in --out beside its checkpoints: metrics and the plan that ran; and what it goes on from.
//
// The folder is opened, and locked, before anything runs. It becomes this run's after the first step: a run that bad
// data or weights ended before it leaves an older run's results alone.
#pragma once

#include "base/status.h"
#include "executor/checkpoint/run_folder.h"
#include "executor/core/run.h"
#include "executor/metrics/event_file.h"
#include "executor/metrics/metrics_file.h"
#include "plan/plan.h"

#include <memory>
#include <optional>

namespace maestro::executor {

/// The newest whole checkpoint of --out, for who only reads there; a run may be writing. InvalidInput where there is
/// none.
Result<checkpoint::FoundCheckpoint> findToEvaluate(const RunOptions &options);

/// Of the root.
class Results {
public:
  static Result<std::unique_ptr<Results>> open(const RunOptions &options);

  const checkpoint::RunFolder &folder() const { return *opened; }
  const std::optional<checkpoint::FoundCheckpoint> &found() const { return opened->found(); }
  /// In a process that was forked off.
  void leaveLock() { opened->leaveLock(); }
  /// After a step. The first makes the folder this run's.
  Status record(const plan::Plan &plan, const metrics::StepRecord &record);

private:
  explicit Results(const RunOptions &options) : options(options) {}
  Status claim(const plan::Plan &plan, uint64_t stepsBefore);

  const RunOptions &options;
  std::unique_ptr<checkpoint::RunFolder> opened;
  std::unique_ptr<metrics::MetricsFile> metricsFile;
  std::unique_ptr<metrics::EventFile> eventFile; ///< Null without --tensorboard.
};

} // namespace maestro::executor
