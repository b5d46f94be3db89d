// The ranks of a job as whoever feeds them with steps sees them.
#pragma once

#include "base/status.h"
#include "executor/data/source.h"

#include <cstdint>

namespace maestro::executor {

struct StepResult;

class StepRanks {
public:
  virtual ~StepRanks() = default;

  enum class To : uint8_t { All, Frozen, Training };
  /// Queues a step, or an evaluation, to ranks that are here. The batch must stay until they have
  /// ended it. Without `updates` those that train end with the gradients.
  virtual void submit(const data::SampleBatch &batch, uint64_t step, To to, bool updates = true) = 0;
  /// Makes a step's schedule, so that it is there when ranks ask for it, and says in the batch whose values are read
  /// here. What is wrong with the batch, ranks say.
  virtual void prepare(data::SampleBatch &batch, uint64_t step) = 0;
  /// Waits for the ranks that train to end the step; for all ranks when nothing trains. The job's
  /// one cause of failure.
  virtual Result<const StepResult *> await(uint64_t step) = 0;
  /// Waits until no rank here works on the step or an earlier one: its batch may be reused.
  virtual Status awaitReleased(uint64_t step) = 0;

  /// Whether any rank here has nothing to train, and may run ahead.
  virtual bool runsAhead() const = 0;
  /// Whether a rank that trains is here: its steps are agreed with the others.
  virtual bool trainsHere() const = 0;
  /// What the calling thread does between steps, for messages about who waits for whom.
  virtual void drives(const char *what) const = 0;
};

} // namespace maestro::executor
