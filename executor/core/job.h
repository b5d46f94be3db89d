// All ranks of a job on this machine: makes them from the plan, and drives their steps.
//
//   driver (the run's thread)          rank 0 … rank n, a thread each
//   submit(batch, step) ──────────────▶ Worker: tasks, reduction, norm, update
//   await(step)         ◀── results ──  those that train have ended the step; frozen ones may be ahead or behind
//
// A rank that has nothing to train meets the others only through its channels, so it runs ahead into the next step as
// soon as that is submitted and slots are free.
#pragma once

#include "base/status.h"
#include "executor/core/device_segments.h"
#include "executor/core/own_values.h"
#include "executor/core/parameters.h"
#include "executor/core/schedule_cache.h"
#include "executor/core/seats.h"
#include "executor/core/step_ranks.h"
#include "executor/core/transfer.h"
#include "executor/core/worker.h"

#include <array>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace maestro::executor {

/// A bound buffer of a parameter on its way to the rank that takes it.
struct Gathering {
  plan::fb::BindingKind kind;
  uint32_t parameter;
  uint32_t source; ///< Topology.stations: a lead that holds it, or the first part of it.
  uint32_t taker;  ///< Rank: one that shares the source's tensors, or the root (WorldOptions::gathersAtRoot).
};

struct JobOptions {
  uint64_t seed = 0;
  bool evaluates = false;            ///< Nothing else: there are no gradients.
  bool validates = false;            ///< Batches are evaluated between steps.
  bool adapts = false;               ///< Measured times steer the grouping of samples.
  bool onePiece = false;             ///< Every batch is one micro-batch (--self-check),
  uint64_t growth = 1;               ///< on memory grown by this factor.
  size_t traceCapacity = 0;          ///< Spans that each device and rank collects.
  int lateDeviceSeed = -1;           ///< ≥ 0: devices that complete late and hide their memory.
  uint32_t lateDeviceDelayUs = 1000; ///< At most.
  double sleepScale = 0;     ///< > 0: devices without kernels; tasks sleep for so many times their planned time.
  bool fileOrder = false;    ///< Micro-batches and tasks as they come, for comparison.
  uint64_t skippedSteps = 0; ///< Before the first: they were not applied.
  /// Asked by the root rank at each step's end; all that train then stop after it.
  std::function<bool()> wantsToStop;
  /// Where ranks are several processes: how the others are reached, and which ranks are where.
  World *world = nullptr;
  Seats seats;
  BulkWay *bulkWay = nullptr; ///< How others write to devices' memory; null: addresses are enough.
};

/// What a step came to.
struct StepResult {
  LossTotals totals;
  double gradientNorm = 0;
  bool applied = true; ///< Otherwise a loss or the gradient norm is not finite, and parameters are
                       ///< as before the step.
  bool stops = false;  ///< Somebody asked to stop after this step.
  std::vector<metrics::SampleName> badSamples; ///< Of a step that is not applied; the root's alone.
  int64_t endNs = 0;                           ///< Of the monotonic clock, on the rank's thread.
  uint64_t tokens = 0;
  std::vector<uint64_t> microBatches; ///< By section.
  int64_t predictedNs = 0, scheduleNs = 0;
};

class Job : public StepRanks {
public:
  /// The plan must outlive the job. Allocates all memory; parameters are zero.
  static Result<std::unique_ptr<Job>> create(const plan::Plan &plan, const JobOptions &options);
  ~Job() override; ///< Ends the ranks.

  const Topology &topology() const { return facts; }
  const World &worldOfRanks() const { return *world; }
  const Seats &seats() const { return seatTable; }
  bool isRoot() const { return seatTable.here().has(world->root()); }
  /// Whether the station is in this process.
  bool isHere(uint32_t station) const { return workers[facts.stations[station].rank] != nullptr; }
  /// For loading, while no step is under way: the station's memory and the device that it is on.
  Station &station(uint32_t station) { return *workers[facts.stations[station].rank]->station(station); }
  /// Of the first rank that is here.
  std::map<std::string, std::string> deviceIdentity() const { return anyWorker().device().identity(); }
  Device &device(uint32_t station) { return workers[facts.stations[station].rank]->device(); }
  /// The first station that binds it, a lead; kNone when none does. Others hold the same, but for parts.
  uint32_t holder(plan::fb::BindingKind kind, uint32_t parameter) const;
  /// The whole buffer, piece by piece, in order, to `take` in the taker's process, while no step is under way. Where
  /// ranks are processes, all that train call it alike.
  Status gather(const Gathering &gathering, const TakePiece &take);
  /// From the first that holds it, to the root.
  Status gatherAtRoot(plan::fb::BindingKind kind, uint32_t parameter, const TakePiece &take) {
    return gather({kind, parameter, holder(kind, parameter), world->root()}, take);
  }

  /// After parameters were loaded: makes copies of them and starts the ranks.
  Status start();

  void prepare(data::SampleBatch &batch, uint64_t step) override;
  void submit(const data::SampleBatch &batch, uint64_t step, To to, bool updates = true) override;
  Result<const StepResult *> await(uint64_t step) override;
  /// What prepare() does, for the next batch that will be evaluated.
  void prepareEvaluation(data::SampleBatch &batch);
  /// The losses of a batch without gradients, while no step is under way, and whether somebody asked to stop.
  Result<const StepResult *> evaluate(const data::SampleBatch &batch);
  /// Waits for the ranks that train, where any is here, to have nothing left to do.
  Status drain();
  Status awaitReleased(uint64_t step) override;

  /// Ends the ranks that are here, whatever they are waiting for, and their devices' work: what
  /// they did may be read.
  void end();

  /// Clips and steps the optimizer on all ranks, where the step applies, after submit(…, updates =
  /// false).
  Status update(uint64_t step, const StepResult &result);

  void drives(const char *what) const override {
    report(driverRank(), transport::LaneKind::Driver, transport::Activity::Running, what);
  }

  size_t ranks() const { return workers.size(); }
  /// Null where the rank is another process.
  Worker *worker(size_t rank) { return workers[rank].get(); }
  /// Any of those that are here.
  Worker &anyWorker() const;
  const ScheduleCache &stepScheduler() const { return *scheduler; }
  /// What devices have done so far, in all processes.
  const SharedCounters &counters() const { return world->counters(); }
  bool runsAhead() const override { return anyFrozenRank; }
  bool trainsHere() const override { return anyTrainingRank; }

private:
  struct Command {
    enum class Kind : uint8_t { Step, Gradients, Update, Evaluate } kind = Kind::Step;
    const data::SampleBatch *batch = nullptr;
    uint64_t step = 0;
    double norm = 0;
    bool applies = true;
  };
  struct Mailbox {
    std::array<Command, 16> commands;                     ///< A ring: at most a few steps are under way.
    uint64_t submitted = 0, taken = 0, finished = 0;      ///< Commands.
    uint64_t lastStep = 0;                                ///< Ended.
    std::vector<std::pair<uint64_t, StepResult>> results; ///< A ring, by step.
    StepResult evaluation;                                ///< The last.
  };

  Job(const plan::Plan &plan, const JobOptions &options);
  Status createWorkers();
  void post(uint32_t rank, const Command &command);
  void serve(uint32_t rank);
  Status execute(uint32_t rank, const Command &command, StepResult &result);
  bool trains(uint32_t rank) const;
  Status failureStatus();
  void noteFailure(uint32_t rank, const Status &status);
  /// Bytes of one station's buffer.
  struct Stretch {
    plan::fb::BindingKind kind;
    uint32_t parameter, source, taker;
    uint64_t begin, end;
  };
  /// Pieces for one taker.
  struct Collection {
    uint64_t pieces = 0;                                 ///< So far, of others' processes.
    std::map<uint32_t, std::unique_ptr<Sender>> senders; ///< By rank; made when they are needed, as the receiver is.
    std::unique_ptr<Receiver> receiver;
    std::vector<std::byte> piece;
  };
  Status gatherStretch(const Stretch &stretch, const TakePiece &take);
  Status sendPieces(uint64_t first, const Stretch &stretch);
  Status receivePieces(uint64_t first, const Stretch &stretch, const TakePiece &take);
  void report(uint32_t rank, transport::LaneKind lane, transport::Activity activity, const char *what = nullptr) const;
  void onDeviceSign(uint32_t rank, DeviceSign sign);
  /// The rank in whose lane this thread, which drives all ranks here, reports.
  uint32_t driverRank() const { return isRoot() ? world->root() : seatTable.here().first; }
  class DriverWaits;
  void watch();
  void startWatching();
  bool isIdle(const Mailbox &box) const { return box.finished == box.submitted; }

  const plan::Plan &plan;
  JobOptions options;
  Topology facts;
  Seats seatTable;
  std::unique_ptr<World> ownWorld;
  World *world = nullptr;
  std::unique_ptr<data::Batcher> batcher;
  std::unique_ptr<ScheduleCache> scheduler, evaluations; ///< Of steps; of what is evaluated beside them.
  DeviceSegments deviceSegments;                ///< Of this process, and of those whose devices are written to.
  std::vector<std::unique_ptr<Worker>> workers; ///< By rank; null where it is another process.
  bool anyFrozenRank = false, anyTrainingRank = false;
  uint32_t tellsOfData = 0; ///< The rank here that tells what this process reads: the first that trains, if any does.
  std::optional<OwnValues> stepValues, evaluationValues;
  uint64_t evaluated = 0, toEvaluate = 0;     ///< Batches so far; that were prepared.
  std::map<uint32_t, Collection> collections; ///< By the taker's rank.

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Mailbox> mailboxes;
  bool stopping = false;
  Status failure;
  std::vector<transport::Progress::State> hostStates; ///< By rank: before it began to wait for its device.
  std::vector<std::thread> threads;
  std::thread watcher; ///< Of a job of several ranks: shows that they live; the root's also looks
                       ///< for who holds others up.
};

} // namespace maestro::executor
