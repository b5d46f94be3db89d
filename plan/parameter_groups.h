// How parameters are updated: by the values of Training, or of the group of it that a parameter names.
#pragma once

#include "plan/plan_generated.h"

namespace maestro::plan {

struct GroupOptimizer {
  fb::Optimizer kind = fb::Optimizer::AdamW;
  double lr = 0, beta1 = 0, beta2 = 0, eps = 0, momentum = 0;
  bool nesterov = false;

  bool keepsSecondMoment() const { return kind != fb::Optimizer::Sgd; }
  bool keepsFirstMoment() const { return keepsSecondMoment() || momentum > 0; }
};

/// Group 0 is Training's own; the others are Training.groups.
inline uint32_t groupCount(const fb::Training &training) {
  return 1 + (training.groups() ? training.groups()->size() : 0);
}

/// Of a group below groupCount().
inline GroupOptimizer optimizerOf(const fb::Training &training, uint32_t group) {
  auto read = [](const auto &own) {
    return GroupOptimizer{own.optimizer(), own.lr(),       own.beta1(),   own.beta2(),
                          own.eps(),       own.momentum(), own.nesterov()};
  };
  return group == 0 ? read(training) : read(*training.groups()->Get(group - 1));
}

inline GroupOptimizer optimizerOf(const fb::TrainingT &training, uint32_t group) {
  auto read = [](const auto &own) {
    return GroupOptimizer{own.optimizer, own.lr, own.beta1, own.beta2, own.eps, own.momentum, own.nesterov};
  };
  return group == 0 ? read(training) : read(*training.groups[group - 1]);
}

} // namespace maestro::plan
