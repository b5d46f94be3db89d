// How parameters are updated: by the values of Training, or of the group of it that a parameter names.
#pragma once

#include "plan/plan_generated.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace maestro::plan {

/// What a parameter keeps from step to step beside its value and gradient, in the order in which checkpoints have it.
inline constexpr fb::BindingKind kStates[] = {fb::BindingKind::Moment1, fb::BindingKind::Moment2,
                                              fb::BindingKind::Average};
/// Bound to parameters: a value, a gradient, a state.
inline bool isOfParameter(fb::BindingKind kind) {
  return (kind >= fb::BindingKind::Value && kind <= fb::BindingKind::Moment2) || kind == fb::BindingKind::Average;
}

struct GroupOptimizer {
  fb::Optimizer kind = fb::Optimizer::AdamW;
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, momentum = 0;
  bool nesterov = false;
  uint32_t iterations = 0;
  bool matchRms = false;
  double beta2Decay = 0, eps2 = 0, clip = 0;

  /// Muon and Adafactor look at a parameter as a whole: devices cannot each update a part of it.
  bool worksByElement() const { return kind != fb::Optimizer::Muon && kind != fb::Optimizer::Adafactor; }

  /// The shape of Moment1 or Moment2 of a parameter; nothing where it has none.
  std::optional<std::vector<int64_t>> momentShape(fb::BindingKind moment, std::span<const int64_t> parameter) const {
    std::vector<int64_t> shape(parameter.begin(), parameter.end());
    bool isFirst = moment == fb::BindingKind::Moment1;
    switch (kind) {
    case fb::Optimizer::Adafactor:
      if (shape.size() < 2)
        return isFirst ? std::nullopt : std::optional(shape);
      shape[shape.size() - (isFirst ? 1 : 2)] = 1;
      return shape;
    case fb::Optimizer::Sgd:
      return isFirst && momentum > 0 ? std::optional(shape) : std::nullopt;
    case fb::Optimizer::Muon:
      return isFirst ? std::optional(shape) : std::nullopt;
    default:
      return shape;
    }
  }
};

inline std::span<const int64_t> shapeOf(const fb::Parameter &parameter) {
  return {parameter.shape()->data(), parameter.shape()->size()};
}

/// Group 0 is Training's own; the others are Training.groups.
inline uint32_t groupCount(const fb::Training &training) {
  return 1 + (training.groups() ? training.groups()->size() : 0);
}

/// Of a group below groupCount().
inline GroupOptimizer optimizerOf(const fb::Training &training, uint32_t group) {
  auto read = [](const auto &own) {
    return GroupOptimizer{own.optimizer(), own.lr(),          own.beta1(),    own.beta2(),
                          own.eps(),       own.momentum(),    own.nesterov(), own.iterations(),
                          own.match_rms(), own.beta2_decay(), own.eps2(),     own.clip()};
  };
  return group == 0 ? read(training) : read(*training.groups()->Get(group - 1));
}

inline GroupOptimizer optimizerOf(const fb::TrainingT &training, uint32_t group) {
  auto read = [](const auto &own) {
    return GroupOptimizer{own.optimizer, own.lr,         own.beta1,     own.beta2,       own.eps,  own.momentum,
                          own.nesterov,  own.iterations, own.match_rms, own.beta2_decay, own.eps2, own.clip};
  };
  return group == 0 ? read(training) : read(*training.groups[group - 1]);
}

} // namespace maestro::plan
