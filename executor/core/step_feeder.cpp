#include "executor/core/step_feeder.h"

#include <algorithm>

namespace maestro::executor {

StepFeeder::StepFeeder(StepRanks &ranks, data::SampleSource &source, const Options &options, uint64_t done)
    : ranks(ranks), source(source), options(options), done(done) {}

Status StepFeeder::begin(uint64_t step) {
  Pending &slot = slotOf(step);
  if (slot.step == step)
    return Status();
  if (slot.step > 0)
    MAESTRO_TRY(ranks.awaitReleased(slot.step));
  ranks.drives("reading data");
  MAESTRO_ASSIGN(slot.batch, source.next(options.globalBatch));
  if (slot.batch->count == 0)
    return Status::invalidInput("the data holds no samples");
  slot.step = step;
  ranks.prepare(*slot.batch, step);
  if (step == options.wholeStep)
    std::ranges::fill(slot.batch->wanted, uint8_t{1});
  source.read(*slot.batch);
  return Status();
}

Status StepFeeder::read(uint64_t step) {
  MAESTRO_TRY(begin(step));
  ranks.drives("reading data");
  return source.await(*slotOf(step).batch);
}

Result<const StepResult *> StepFeeder::next(bool updates) {
  uint64_t step = done + 1;
  MAESTRO_TRY(read(step));
  const Pending &now = slotOf(step);
  if (givenToFrozen < step)
    ranks.submit(*now.batch, step, StepRanks::To::Frozen);
  if (givenToTraining < step)
    ranks.submit(*now.batch, step, StepRanks::To::Training, updates);
  givenToFrozen = std::max(givenToFrozen, step);
  givenToTraining = std::max(givenToTraining, step);
  if (!isLast(now))
    MAESTRO_TRY(runAhead(step, updates));
  MAESTRO_ASSIGN(const StepResult *result, ranks.await(step));
  done = step;
  return result;
}

/// While the ranks work on `step`.
Status StepFeeder::runAhead(uint64_t step, bool updates) {
  Status status = read(step + 1);
  bool mayRunAhead = !options.waitsForSteps && !isValidationDue(step) && ranks.trainsHere();
  if (!status.isOk()) // Where nobody needs it now, a failure is reported when the step is due.
    return mayRunAhead && ranks.runsAhead() ? std::move(status) : Status();
  const data::SampleBatch &batch = *slotOf(step + 1).batch;
  if (mayRunAhead && updates && !isCheckpointDue(step)) {
    ranks.submit(batch, step + 1, StepRanks::To::Training);
    givenToTraining = step + 1;
  }
  if (mayRunAhead && ranks.runsAhead()) {
    ranks.submit(batch, step + 1, StepRanks::To::Frozen);
    givenToFrozen = step + 1;
  }
  if (!isLast(slotOf(step + 1)))
    (void)begin(step + 2); // What is wrong there is said when it is due.
  return Status();
}

} // namespace maestro::executor
