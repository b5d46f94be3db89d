// --evaluate: the mean losses over a data set, without an update.
#pragma once

#include "base/status.h"
#include "executor/core/job.h"
#include "executor/core/losses.h"
#include "executor/data/source.h"
#include "plan/plan.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace maestro::executor {

struct Evaluation {
  LossTotals totals;
  uint64_t samples = 0;
};

/// Of one pass over the data, or of so many steps, until `isStopped`. `batch` must outlive the job:
/// after a failure ranks may still read it.
Result<Evaluation> evaluate(const plan::Plan &plan, Job &job, data::SampleSource &source, data::SampleBatch &batch,
                            std::optional<uint64_t> steps, const std::function<bool()> &isStopped);

/// One line of JSON on standard output; what is not finite is null.
Status printEvaluation(const plan::Plan &plan, const Evaluation &evaluation);

} // namespace maestro::executor
