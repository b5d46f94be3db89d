// What a step takes under a layout: the executor's own scheduler on steps of drawn sample sizes, and nothing else.
// Pure; the same inputs give the same answer.
#pragma once

#include "cost_models/compound.h"
#include "wavefront/scheduler.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace maestro::cost_models {

/// One step's samples: samples × CompoundModel.dims.
using SampleSizes = std::vector<int64_t>;

/// Means over the steps simulated.
struct Simulation {
  double stepSeconds = 0;                   ///< From one step's updates to the next's.
  double leastSeconds = 0, mostSeconds = 0; ///< Of it: a tenth of the steps takes no longer, a tenth no less.
  double meanSeconds = 0; ///< Of the steps that these two are of: stepSeconds, or of others (Simulator::addSteps()).
  double makespanSeconds = 0;   ///< From a step's start until its last task ends, where steps wait for each other.
  double lowerBoundSeconds = 0; ///< No schedule of these micro-batch sizes and devices ends its tasks earlier.
  double updateSeconds = 0;     ///< From the last gradient to the last update: reduction over replicas, and updates.
  /// Of a device that works (where frozen sections run ahead: that trains), on average: until its first task of a step,
  /// and from its last one to the step's last gradient.
  double fillSeconds = 0, drainSeconds = 0;
  bool runsAhead = false;                ///< Frozen sections on devices of their own do not wait for updates.
  uint32_t parts = 1;                    ///< One of so many equal parts was simulated (fold.h).
  std::vector<double> deviceBusySeconds; ///< Tasks and updates, by device.
  std::vector<uint64_t> deviceBytes;     ///< What each device holds.
  struct Section {
    double busySeconds = 0; ///< Of one of its devices, on average, in this section's tasks.
    double idleSeconds = 0; ///< Of one of its devices, on average, in no task of any section.
    double waitSeconds = 0; ///< Of runTuned() alone: of the idle time, what would not be there if nothing took time on
                            ///< the way between stages.
    double microBatches = 0;
  };
  std::vector<Section> sections;
  std::vector<wavefront::Choice> hints; ///< Of runTuned(): where these schedules began.
};

/// Whether a frozen section has a device without a section that trains: it runs ahead into the next step then.
bool runsAhead(const CompoundModel &model, const CompoundLayout &layout);

/// Keeps the scheduler's memory between layouts.
class Simulator {
public:
  /// Steps to simulate, each of one or more samples; must outlive the simulator. Problems of more tasks than
  /// `mostTasks` are simulated by one of their equal parts, where they have such. Schedules begin with `hints`
  /// (wavefront::Problem.hints).
  explicit Simulator(std::span<const SampleSizes> steps, uint64_t mostTasks = UINT64_MAX,
                     std::vector<wavefront::Choice> hints = {}, int64_t maxNsPerTask = INT64_MAX)
      : steps(steps), mostTasks(mostTasks), hints(std::move(hints)), scheduler(0, maxNsPerTask) {}

  /// InvalidInput where the layout or the sizes do not fit the model. Steps follow each other as the executor has it:
  /// what trains waits for its update.
  Result<Simulation> run(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout,
                         wavefront::Order order);
  /// The same in wavefront order, beginning as usual or where tuning found best (wavefront/tuner.h; it looks near the
  /// hints), whichever steps are shorter with; so a plan does that says where. Beside idle devices tasks take less time
  /// (contention.h), where that was measured.
  Result<Simulation> runTuned(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout);
  /// What a simulation's layout takes with other steps, whose schedules begin where its own do: the mean, and how they
  /// differ.
  Status addSteps(std::span<const SampleSizes> others, const CompoundModel &model, const Machine &machine,
                  const CompoundLayout &layout, Simulation &simulation) const;
  /// Tasks that run() would schedule.
  uint64_t tasks(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout) const;

private:
  /// A step each.
  Result<std::vector<wavefront::Problem>> problemsOf(const CompoundModel &model, const Machine &machine,
                                                     const CompoundLayout &layout, uint32_t &parts) const;
  /// Tasks as long as they are beside the devices that work at the same time.
  void adaptTasks(const Machine &machine, std::vector<wavefront::Problem> &problems);
  Result<Simulation> simulate(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout,
                              wavefront::Order order, std::vector<wavefront::Problem> problems, uint32_t parts,
                              bool withWaits);
  /// `exactly`: devices' ends are told to the task; otherwise only steps and what devices do.
  Status addSteps(const std::vector<wavefront::Problem> &problems, const std::vector<wavefront::Schedule> &schedules,
                  bool exactly, Simulation &result);
  Status addWaits(std::vector<wavefront::Problem> problems, const std::vector<wavefront::Schedule> &schedules,
                  Simulation &result);
  uint32_t partsOf(const wavefront::Problem &problem) const;

  std::span<const SampleSizes> steps;
  uint64_t mostTasks;
  std::vector<wavefront::Choice> hints;
  wavefront::Scheduler scheduler;
};

} // namespace maestro::cost_models
