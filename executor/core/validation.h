// --validate: the losses over a data set of its own, between steps of a training run; which were the best, and when
// there is nothing more to gain.
#pragma once

#include "executor/checkpoint/directory.h"
#include "executor/core/evaluation.h"
#include "executor/core/run.h"
#include "executor/metrics/step_record.h"

#include <memory>

namespace maestro::executor {

class Validation {
public:
  /// InvalidInput: the data cannot be read, or options.validation.keepBest names no loss. `earlier`: of the run that
  /// goes on.
  static Result<std::unique_ptr<Validation>> open(const plan::Plan &plan, const RunOptions &options,
                                                  const std::optional<checkpoint::BestLoss> &earlier);

  /// After this step, of which `isLast` says whether it is the run's last.
  bool isDue(uint64_t step, bool isLast) const;
  /// While no step is under way; fills in record.validation. All ranks come to the same.
  Status run(Job &job, metrics::StepRecord &record);

  /// Somebody asked to stop meanwhile: what was evaluated does not count.
  bool stops() const { return evaluation.stops; }
  /// The last one was better than all before.
  bool isBest() const { return !stops() && best.withoutGain == 0; }
  /// So many in a row were not better that the run ends.
  bool isOver() const { return options.stopAfterNoGain > 0 && best.withoutGain >= options.stopAfterNoGain; }
  const checkpoint::BestLoss &bestLoss() const { return best; }
  /// For people, at the run's end.
  void sayBest() const;

private:
  Validation(const plan::Plan &plan, const ValidationOptions &options) : plan(plan), options(options) {}
  double watchedLoss(const metrics::ValidationRecord &record) const;

  const plan::Plan &plan;
  const ValidationOptions &options;
  std::unique_ptr<data::SampleSource> source;
  Evaluation evaluation;
  checkpoint::BestLoss best;
};

} // namespace maestro::executor
