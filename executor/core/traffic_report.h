// What came over edges and went over networks in a step, for its line of metrics.jsonl; and over the run, for people.
#pragma once

#include "executor/core/job.h"
#include "executor/metrics/step_record.h"

#include <cstdint>
#include <string>
#include <vector>

namespace maestro::executor {

/// Remembers what was counted at the last call; what is added since is the step's.
class TrafficReport {
public:
  /// Fills in record's edges and network.
  void fill(const plan::Plan &plan, const Job &job, metrics::StepRecord &record);
  /// "over the network: 1.2 GB by 3 processes, 0.84 GB/s while something was under way; the plan counts on …"; empty
  /// where nothing went.
  std::string summary(const plan::Plan &plan) const;

private:
  int64_t newCount(const SharedCounters::Counter &counter, size_t index);

  std::vector<int64_t> before; ///< By ring; then by process: bytes, nanoseconds.
  std::vector<metrics::NetworkUse> all;
};

} // namespace maestro::executor
