// --self-check: the first step again, in one piece.
#pragma once

#include "base/status.h"
#include "executor/core/job.h"
#include "executor/core/parameters.h"

namespace maestro::executor {

/// Compares the gradients that `job` holds for `batch` with those of evaluating the whole batch as one micro-batch of
/// every section, prints the largest relative difference per parameter, and fails (InvalidInput) when one is more than
/// rounding: the graph's loss then depends on padding, or on the company a sample keeps. Fails, too, when no task
/// writes a gradient. Needs the memory of the one-piece evaluation.
Status selfCheck(const plan::Plan &plan, Job &job, const StepResult &result, const data::SampleBatch &batch,
                 const WeightFiles &weights, uint64_t seed, uint64_t step);

/// Writes every parameter's initial value into all stations that hold it.
Result<LoadSummary> loadJob(const plan::Plan &plan, const WeightFiles &weights, uint64_t seed, Job &job);

} // namespace maestro::executor
