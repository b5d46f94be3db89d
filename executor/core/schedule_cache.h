// What a process's ranks share of a step: its samples' sizes and the schedule made from them. Made once, by whoever
// asks first; other processes make the same, since it follows from the plan and the samples alone.
#pragma once

#include "base/status.h"
#include "executor/core/topology.h"
#include "executor/data/batcher.h"
#include "executor/data/source.h"
#include "wavefront/scheduler.h"

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

namespace maestro::executor {

/// Steps that can be under way at the same time: a batch and its schedule stay until so many steps later.
constexpr size_t kStepsUnderWay = 4;

struct ScheduledStep {
  uint64_t step = 0; ///< 0: none yet.
  wavefront::Problem problem;
  wavefront::Schedule schedule;
  std::vector<const data::Sample *> samples; ///< By Schedule.samples.
  uint64_t costsOfStep = 0;                  ///< The step whose measured times its costs follow; 0: the plan's.
  uint64_t tokens = 0;                       ///< Padding not counted.
  int64_t processorNs = 0;                   ///< That making and verifying the schedule took.
  int64_t predictedNs = 0; ///< Of the step by itself: its tasks, then the reduction of gradients and the update.
};

class ScheduleCache {
public:
  struct Options {
    ProblemOptions problem;
    wavefront::Order order = wavefront::Order::Wavefront;
    double sleepScale = 0; ///< > 0: costs times this.
  };
  /// All of these must outlive it.
  ScheduleCache(const plan::Plan &plan, const Topology &topology, const data::Batcher &batcher, const Options &options);

  /// The step's, from 1; stays until step + kStepsUnderWay is asked for. InvalidInput: a sample is beyond the plan's
  /// bounds.
  Result<const ScheduledStep *> of(const data::SampleBatch &batch, uint64_t step);

  /// What was measured in a step, in nanoseconds by executable, forward then backward, and what the plan's costs
  /// expected. Later schedules follow, half the way each time. The first call for a step counts; all ranks measured
  /// alike.
  void adapt(uint64_t step, std::span<const double> measured, std::span<const double> expected);

  /// With the plan's own costs, and without samples.
  const wavefront::Problem &planned() const { return plannedProblem; }
  /// Symbol values of all samples of a batch taken as one micro-batch (for --self-check).
  Result<std::vector<int64_t>> combinedSymbols(const data::SampleBatch &batch) const;

private:
  Status measure(const data::Sample &sample, std::span<int64_t> sizes) const;
  Status make(const data::SampleBatch &batch, ScheduledStep &made);
  /// Another step that is still here, of samples with the same sizes in the same order: its schedule is this one's. So
  /// where data has one size, steps of a millisecond are scheduled once.
  const ScheduledStep *withSizesOf(const ScheduledStep &entry) const;

  const plan::Plan &plan;
  const data::Batcher &batcher;
  wavefront::Order order;
  uint32_t sampleSymbol;
  wavefront::Problem plannedProblem, adaptedProblem;
  int64_t updateNs; ///< Planned: of the device that updates longest.

  std::mutex mutex;
  wavefront::Scheduler scheduler;
  wavefront::Verifier verifier;
  std::array<ScheduledStep, kStepsUnderWay> made; ///< By step.
  uint64_t adaptedStep = 0;
  std::vector<double> factors; ///< Of the plan's costs, by executable, forward then backward.
};

} // namespace maestro::executor
