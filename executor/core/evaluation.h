// The mean losses over a data set, without an update: of --evaluate, and of --validate.
#pragma once

#include "base/status.h"
#include "executor/core/job.h"
#include "executor/core/losses.h"
#include "executor/data/source.h"
#include "plan/plan.h"

#include <cstdint>
#include <optional>

namespace maestro::executor {

struct Evaluation {
  LossTotals totals;
  uint64_t samples = 0, tokens = 0;
  bool stops = false; ///< Somebody asked to; the rest is missing.
};

/// Batches of a source of evaluations: one is evaluated, the values of the next are read.
constexpr size_t kEvaluatedBatches = 2;

/// Of one pass over the data, or of so many steps. The source must outlive the job: after a failure ranks may still
/// read its batches.
Result<Evaluation> evaluate(const plan::Plan &plan, Job &job, data::SampleSource &source,
                            std::optional<uint64_t> steps = {});

/// One line of JSON on standard output; what is not finite is null.
Status printEvaluation(const plan::Plan &plan, const Evaluation &evaluation);

} // namespace maestro::executor
