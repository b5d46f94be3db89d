// What the update program is told at each step: learning rate, Adam's bias corrections, the factor
// that clips gradients. Pure functions of the plan's Training table and the step number.
#pragma once

#include "plan/plan_generated.h"

#include <array>
#include <cstdint>

namespace maestro::executor {

/// Learning rate of step `step` = 1, 2, …: lr·step/warmup up to warmup_steps; then min_lr +
/// (lr − min_lr)·½(1 + cos π·(step − warmup)/(total − warmup)) (cosine), the straight line between
/// the same ends (linear), or lr (constant). Past total_steps it stays at min_lr.
double learningRate(const plan::fb::Training &training, uint64_t step);

/// The factor on gradients for clip_grad_norm: 1 without clipping, else min(1, limit/(norm + 1e-6))
/// as torch.nn.utils.clip_grad_norm_ computes it.
double clipFactor(const plan::fb::Training &training, double gradientNorm);

/// BindingKind::HyperParameters of a group (plan/parameter_groups.h): lr of `step`, 1−β1^updates, 1−β2^updates,
/// gradient scale, updates, 0, 0, 0. `updates`: the optimizer's, this one included; fewer than steps where some were
/// not applied.
std::array<float, 8> hyperParameters(const plan::fb::Training &training, uint32_t group, uint64_t step,
                                     uint64_t updates, double gradientScale);

} // namespace maestro::executor
