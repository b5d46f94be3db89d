// What is said of each step: its record for metrics and progress, and warnings of steps that
// trained nothing.
#pragma once

#include "executor/core/busy_times.h"
#include "executor/core/job.h"
#include "executor/core/stragglers.h"
#include "executor/core/traffic_report.h"
#include "executor/metrics/step_record.h"
#include "plan/plan.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace maestro::executor {

class StepReport {
public:
  /// Names a rank and its machine; null where devices are not compared, since they are shares of one.
  using NameRank = std::function<std::string(uint32_t)>;
  StepReport(const plan::Plan &plan, NameRank nameRank) : plan(plan), nameRank(std::move(nameRank)) {}

  /// `seconds`: from the end of the step before, or of what happened in between, to this one's.
  metrics::StepRecord &fill(const Job &job, const StepResult &result, const data::SampleBatch &batch, uint64_t step,
                            double seconds);
  /// Of the record: that the step was not applied, with its samples; once for each loss, that it
  /// counted nothing; once for each device, that it is slower than the others.
  void warn(const StepResult &result);
  /// Of the run, for people; empty: nothing went over a network.
  std::string networkSummary() const { return traffic.summary(plan); }
  /// What ends a run after `steps` of them in a row.
  Status tooManyBadSteps(uint64_t steps) const;

private:
  std::string badSamples() const;
  void compareDevices(const Job &job);

  const plan::Plan &plan;
  metrics::StepRecord record;
  NameRank nameRank;
  BusyTimes busyTimes;
  TrafficReport traffic;
  int64_t dataBytes = 0; ///< Up to the last step.
  Stragglers stragglers;
  std::vector<double> busySeconds, plannedSeconds; ///< Scratch, by rank.
  std::vector<bool> slow;                          ///< By rank: it was said.
  std::vector<bool> uncounted;                     ///< By Plan.losses: it was said.
};

} // namespace maestro::executor
