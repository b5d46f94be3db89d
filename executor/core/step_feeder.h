// Gives a job's ranks their batches, one step ahead of the one that is awaited where that may be.
//
//   read(s) ▸ to the ranks ▸ while they work: read(s + 1), to those that may begin it, begin(s + 2) ▸ await(s)
//
// To begin a step is to take its samples' sizes and make its schedule, which says whose values are needed here: these
// the source reads meanwhile.
//
// Ranks that have nothing to train get step s + 1 while s is under way; those that train get it
// too, and begin it at once, unless something happens between the steps: a checkpoint, or an update
// that is asked for apart. Before a validation nobody runs ahead: all ranks take part in it.
#pragma once

#include "executor/core/schedule_cache.h"
#include "executor/core/step_ranks.h"
#include "executor/data/source.h"

#include <array>
#include <cstdint>
#include <optional>

namespace maestro::executor {

class StepFeeder {
public:
  struct Options {
    uint64_t globalBatch = 1;
    std::optional<uint64_t> lastStep = {}; ///< Otherwise the pass ends the run.
    uint64_t saveEvery = 0;                ///< 0: never.
    uint64_t validateEvery = 0;            ///< 0: at the end only.
    bool waitsForSteps = false;            ///< Nothing runs ahead.
    uint64_t wholeStep = 0;                ///< One of which all values are read (--self-check); 0: none.
  };
  /// The source, of kStepsUnderWay batches, must outlive the job's ranks, which read in them. `done`: steps of earlier
  /// runs.
  StepFeeder(StepRanks &ranks, data::SampleSource &source, const Options &options, uint64_t done);

  /// Runs the next step to its end. Without `updates` the ranks that train end with the gradients:
  /// Job::update() is the caller's.
  Result<const StepResult *> next(bool updates);

  uint64_t step() const { return done; }                                 ///< That next() ended.
  const data::SampleBatch &batch() const { return *slotOf(done).batch; } ///< Of that step.
  bool isLast() const { return isLast(slotOf(done)); }
  bool isCheckpointDue() const { return isCheckpointDue(done); }

private:
  struct Pending {
    data::SampleBatch *batch = nullptr; ///< The source's.
    uint64_t step = 0;
  };

  Pending &slotOf(uint64_t step) { return pendings[step % pendings.size()]; }
  const Pending &slotOf(uint64_t step) const { return pendings[step % pendings.size()]; }
  bool isLast(const Pending &pending) const {
    return options.lastStep ? pending.step >= *options.lastStep : pending.batch->endsPass;
  }
  bool isCheckpointDue(uint64_t step) const { return options.saveEvery > 0 && step % options.saveEvery == 0; }
  bool isValidationDue(uint64_t step) const { return options.validateEvery > 0 && step % options.validateEvery == 0; }
  Status begin(uint64_t step);
  Status read(uint64_t step);
  Status runAhead(uint64_t step, bool updates);

  StepRanks &ranks;
  data::SampleSource &source;
  Options options;
  std::array<Pending, kStepsUnderWay> pendings; ///< By step.
  uint64_t done;
  /// The latest step that ranks without anything to train have got, and the others.
  uint64_t givenToFrozen = 0, givenToTraining = 0;
};

} // namespace maestro::executor
