#include "executor/core/hyper_parameters.h"

#include "plan/parameter_groups.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace maestro::executor {

double learningRate(const plan::fb::Training &training, uint64_t step) {
  double lr = training.lr();
  uint64_t warmup = training.warmup_steps();
  if (step <= warmup)
    return lr * static_cast<double>(step) / static_cast<double>(warmup);
  if (training.decay() == plan::fb::Decay::Constant)
    return lr;
  uint64_t total = training.total_steps();
  if (training.decay() == plan::fb::Decay::Wsd)
    warmup = total - training.decay_steps(); // Until then it is constant.
  if (step <= warmup)
    return lr;
  double progress = total > warmup ? static_cast<double>(step - warmup) / static_cast<double>(total - warmup) : 1.0;
  progress = std::min(progress, 1.0);
  double remaining = training.decay() == plan::fb::Decay::Cosine ? 0.5 * (1.0 + std::cos(std::numbers::pi * progress))
                                                                 : 1.0 - progress;
  return training.min_lr() + (lr - training.min_lr()) * remaining;
}

double clipFactor(const plan::fb::Training &training, double gradientNorm) {
  double limit = training.clip_grad_norm();
  if (limit <= 0)
    return 1.0;
  return std::min(1.0, limit / (gradientNorm + 1e-6));
}

std::array<float, 8> hyperParameters(const plan::fb::Training &training, uint32_t group, uint64_t step,
                                     uint64_t updates, double gradientScale) {
  plan::GroupOptimizer optimizer = plan::optimizerOf(training, group);
  double t = static_cast<double>(updates);
  return {static_cast<float>(learningRate(training, step) * (optimizer.lr / training.lr())),
          static_cast<float>(1.0 - std::pow(optimizer.beta1, t)),
          static_cast<float>(1.0 - std::pow(optimizer.beta2, t)),
          static_cast<float>(gradientScale),
          static_cast<float>(t),
          0,
          0,
          0};
}

} // namespace maestro::executor
