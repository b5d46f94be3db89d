// How long devices and sections were busy in a step, for its line of metrics.jsonl.
#pragma once

#include "executor/core/job.h"
#include "executor/metrics/step_record.h"

#include <cstdint>
#include <vector>

namespace maestro::executor {

/// Remembers what was counted at the last call; what is added since is the step's.
class BusyTimes {
public:
  /// Fills in record's devices and sections of a step of `seconds`. A section's idle time is its devices', in no task
  /// of any section.
  void fill(const plan::Plan &plan, const Job &job, const StepResult &result, double seconds,
            metrics::StepRecord &record);

private:
  double newSeconds(const std::atomic<int64_t> &busyNs, size_t index);
  void fillSection(const Job &job, uint32_t section, metrics::StepRecord &record);

  std::vector<int64_t> before; ///< By rank, then by station.
  std::vector<char> seen;      ///< Scratch, by rank.
};

} // namespace maestro::executor
