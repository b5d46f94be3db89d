#include "executor/core/step_feeder.h"

#include <algorithm>

namespace maestro::executor {

StepFeeder::StepFeeder(Job &job, data::SampleSource &source, const Options &options, uint64_t done)
    : job(job), source(source), options(options), done(done) {}

Status StepFeeder::read(uint64_t step) {
  Pending &slot = slotOf(step);
  if (slot.step == step)
    return Status();
  if (slot.step > 0)
    MAESTRO_TRY(job.awaitReleased(slot.step));
  job.drives("reading data");
  MAESTRO_TRY(source.next(options.globalBatch, slot.batch));
  if (slot.batch.count == 0)
    return Status::invalidInput("the data holds no samples");
  slot.step = step;
  return Status();
}

Result<const StepResult *> StepFeeder::next(bool updates) {
  uint64_t step = done + 1;
  MAESTRO_TRY(read(step));
  const Pending &now = slotOf(step);
  if (givenToFrozen < step)
    job.submit(now.batch, step, Job::To::Frozen);
  if (givenToTraining < step)
    job.submit(now.batch, step, Job::To::Training, updates);
  givenToFrozen = std::max(givenToFrozen, step);
  givenToTraining = std::max(givenToTraining, step);
  if (!isLast(now))
    MAESTRO_TRY(runAhead(step, updates));
  MAESTRO_ASSIGN(const StepResult *result, job.await(step));
  done = step;
  return result;
}

/// While the ranks work on `step`.
Status StepFeeder::runAhead(uint64_t step, bool updates) {
  Status status = read(step + 1);
  bool mayRunAhead = !options.waitsForSteps && job.trainsHere();
  if (!status.isOk()) // Where nobody needs it now, a failure is reported when the step is due.
    return mayRunAhead && job.runsAhead() ? std::move(status) : Status();
  const data::SampleBatch &batch = slotOf(step + 1).batch;
  job.foresee(batch, step + 1);
  if (mayRunAhead && updates && !isCheckpointDue(step)) {
    job.submit(batch, step + 1, Job::To::Training);
    givenToTraining = step + 1;
  }
  if (mayRunAhead && job.runsAhead()) {
    job.submit(batch, step + 1, Job::To::Frozen);
    givenToFrozen = step + 1;
  }
  return Status();
}

} // namespace maestro::executor
