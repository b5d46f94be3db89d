// What a step takes under a layout: the executor's own scheduler on steps of drawn sample sizes, and nothing else. Pure;
// the same inputs give the same answer.
#pragma once

#include "cost_models/compound.h"
#include "executor/wavefront/scheduler.h"

#include <cstdint>
#include <span>
#include <vector>

namespace maestro::cost_models {

/// One step's samples: samples × CompoundModel.dims.
using SampleSizes = std::vector<int64_t>;

/// Means over the steps simulated.
struct Simulation {
  double stepSeconds = 0;       ///< Tasks, reduction of gradients and updates.
  double makespanSeconds = 0;   ///< Of it, until the last task ends.
  double lowerBoundSeconds = 0; ///< No schedule of these micro-batch sizes and devices ends its tasks earlier.
  std::vector<double> deviceBusySeconds; ///< Tasks and updates, by device.
  struct Section {
    double busySeconds = 0; ///< Of one of its devices, on average, in this section's tasks.
    double idleSeconds = 0; ///< Of one of its devices, on average, in no task of any section.
    double microBatches = 0;
  };
  std::vector<Section> sections;
};

/// Keeps the scheduler's memory between layouts.
class Simulator {
public:
  /// Steps to simulate, each of one or more samples; must outlive the simulator.
  explicit Simulator(std::span<const SampleSizes> steps) : steps(steps) {}

  /// InvalidInput where the layout or the sizes do not fit the model. Every step waits for the one before it.
  Result<Simulation> run(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout,
                         wavefront::Order order);

private:
  Status addStep(const wavefront::Problem &problem, const CompoundLayout &layout, Simulation &result);

  std::span<const SampleSizes> steps;
  wavefront::Scheduler scheduler;
  wavefront::Schedule schedule;
};

} // namespace maestro::cost_models
