// --self-check: the first step again, in one piece.
#pragma once

#include "base/status.h"
#include "executor/core/parameters.h"
#include "executor/core/trainer.h"

namespace maestro::executor {

/// Compares the gradients that `instance` holds for `batch` with those of evaluating the whole batch
/// as one micro-batch, prints the largest relative difference per parameter, and fails (InvalidInput) when
/// one is more than rounding: the graph's loss then depends on padding, or on the company a sample keeps.
/// Needs the memory of the one-piece evaluation.
Status selfCheck(const plan::Plan &plan, Device &device, ExecutableInstance &instance, Trainer &trainer,
                 const data::SampleBatch &batch, const LossTotals &totals, const WeightFiles &weights,
                 uint64_t seed, uint64_t step);

} // namespace maestro::executor
