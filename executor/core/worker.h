// A rank: one device, the stations on it, and their part of every step.
//
//   schedule (ScheduleCache, the same on every rank) ─▶ Count ─▶ tasks in order ─▶ gradients added up ─▶ norm ─▶ update
//
// Meets other ranks only through world/ and transport/. Everything that decides anything is a pure function of the plan
// and the samples' sizes; the device does the rest. What a task waits for stands before it in the device's queues, and
// so do the sums of gradients: the host's thread fills the queues ahead, and waits for others' counts and for the
// step's end alone. A step over shapes seen before allocates nothing here.
#pragma once

#include "base/status.h"
#include "executor/core/gradient_sums.h"
#include "executor/core/losses.h"
#include "executor/core/rank_work.h"
#include "executor/core/schedule_cache.h"
#include "executor/core/station.h"
#include "executor/core/step_agreement.h"
#include "executor/core/task_times.h"
#include "executor/core/world.h"
#include "executor/data/source.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace maestro::executor {

struct WorkerOptions {
  uint64_t seed = 0;
  bool evaluates = false; ///< Never has gradients.
  uint64_t growth = 1;
  bool adapts = false; ///< Measured times steer the schedule.
  double sleepScale =
      0; ///< > 0: tasks and updates sleep for so many times their planned time; the device has no kernels.
  uint64_t skippedSteps = 0; ///< Before this run's first: they were not applied.
};

/// The samples of a step: samples × Plan.symbols.
struct StepSizes {
  uint64_t step = 0;
  std::vector<int64_t> sizes;
};

class Worker {
public:
  /// All of these must outlive the worker.
  struct Context {
    const plan::Plan &plan;
    const Topology &topology;
    World &world;
    const data::Batcher &batcher;
    ScheduleCache &scheduler;
    ScheduleCache *evaluations; ///< Schedules without gradients; null where nothing is evaluated.
  };
  static Result<std::unique_ptr<Worker>> create(const Context &context, uint32_t rank, std::unique_ptr<Device> device,
                                                const WorkerOptions &options);
  ~Worker();

  Device &device() { return *ownDevice; }
  /// The station's memory; null where it is another rank's.
  Station *station(uint32_t station) { return stations[station].get(); }
  /// Once, after parameters were loaded.
  Status prepareParameters();

  /// Gradients of a global batch, added up over all that hold a parameter and left in place, and their norm. `step`
  /// from 1. Totals: of this rank.
  Status computeGradients(const data::SampleBatch &batch, uint64_t step, LossTotals &totals);
  /// With all ranks that train; the totals become everybody's.
  Result<StepEnd> agree(uint64_t step, bool wantsToStop, LossTotals &totals);
  /// Clips, steps the optimizer where the step applies, and leaves the gradients zero.
  Status update(uint64_t step, double gradientNorm, bool applies);
  /// The step's samples to look at where it does not apply: those of the micro-batches, or of the
  /// whole step where there are none.
  void listSamples(std::span<const uint32_t> microBatches, std::vector<metrics::SampleName> &names) const;
  /// Losses and counts of all ranks without gradients; `number` counts the job's evaluations. Whether any rank wants to
  /// stop.
  Result<bool> evaluate(const data::SampleBatch &batch, uint64_t number, bool wantsToStop, LossTotals &totals);

  /// A failure of the device's work, from its thread: with the samples on which it worked.
  Status withSamples(const Status &status) const;
  /// From the device's thread: a task begins, or has ended.
  void onSpan(const Span &span, bool hasEnded) { times.onSpan(span, hasEnded); }

  const ScheduledStep &schedule() const { return *now; } ///< Of the last batch.
  /// What ran, and the samples of the steps, when their collection was asked for; when idle.
  void collectSpans(size_t capacity) { times.collect(capacity); }
  std::span<const TaskSpan> taskSpans() const { return times.collected(); }
  std::span<const StepSizes> stepSizes() const { return batches; }

private:
  Worker(const Context &context, uint32_t rank, const WorkerOptions &options);
  Status createStations();
  Status openChannels();
  Result<SharedRegions> sharedRegions(uint32_t station);
  Result<TensorGroup> tensorGroup(uint32_t station);

  Status planBatch(const data::SampleBatch &batch, uint64_t step);
  MicroBatchData dataOf(uint32_t microBatch) const;
  Status queueCounts();
  Status publishCounts(LossTotals &totals);
  Status awaitCounts(const LossTotals &totals);
  Status runBatch(const data::SampleBatch &batch, uint64_t batchStep, LossTotals &totals);
  Status queueTasks(LossTotals &totals);
  Status queueTask(const RankTask &task, LossTotals &totals);
  Status finishTasks(LossTotals &totals);
  Status queueArrivals(const RankTask &task);
  void awaitSent(uint32_t station, uint32_t slot);
  void selectCopies(const RankTask &task);
  Result<uint32_t> launch(const RankTask &task);
  void readSums(const RankTask &task, uint32_t slot);
  Status queueSends(const RankTask &task, uint32_t slot);
  Status queueReleases(const RankTask &task);
  uint32_t takeSlot(uint32_t station, uint32_t microBatch);
  uint32_t slotOf(uint32_t station, uint32_t microBatch) const;
  Status queueNorms();
  uint32_t firstBadMicroBatch() const;
  void report(const char *what, uint64_t index) const;
  bool hasBackward(uint32_t station) const;
  Status launchOnce(uint32_t station, plan::fb::ProgramKind kind, TaskSpan::Kind span);
  int64_t plannedNs(const RankTask &task) const;

  const plan::Plan &plan;
  const Topology &topology;
  World &world;
  const data::Batcher &batcher;
  uint32_t rank;
  WorkerOptions options;
  std::unique_ptr<Device> ownDevice;
  std::optional<Exchange::Member> exchange;                  ///< With the ranks that share this one's stations.
  std::vector<std::unique_ptr<Receiver>> receivers;          ///< By Topology.rings; null where another rank receives.
  std::vector<std::vector<std::unique_ptr<Sender>>> senders; ///< Ring × RingFacts.senders; null for other ranks'.
  std::vector<std::unique_ptr<Station>> stations;            ///< By Topology.stations; null for other ranks'.
  std::vector<std::vector<uint32_t>> slots;                  ///< station × slot: the micro-batch in it, or kNone.
  std::vector<std::vector<Point>> sent;                      ///< station × slot: behind what is sent from it.
  StepAgreement agreement;                                   ///< With all ranks that train.
  GradientSums gradientSums;
  TaskTimes times;
  uint32_t lossCount = 0;

  ScheduleCache &scheduler;
  ScheduleCache *evaluations;
  bool evaluating = false;            ///< What is under way has no gradients.
  const ScheduledStep *now = nullptr; ///< Of the step under way, or of the last.
  RankWork order;
  const data::SampleBatch *batch = nullptr; ///< Of the step under way, or of the last.
  uint64_t step = 0, skippedSteps = 0;
  bool scalesWritten = false;      ///< All ranks' counts are on the device.
  Point counted;                   ///< The device has this rank's counts.
  std::vector<float> sums, counts; ///< micro-batch × Plan.losses
  std::vector<double> allCounts;   ///< By Plan.losses, of all ranks.
  std::vector<float> scales;
  std::vector<std::array<float, 8>> hyper; ///< By the training's groups.
  std::vector<double> norms;               ///< By station: of whole gradients, and of its parts of split ones.
  std::vector<StepSizes> batches;
};

} // namespace maestro::executor
