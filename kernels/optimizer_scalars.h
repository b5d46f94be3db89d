// The f32[8] operand of the optimizers, which changes every step.
#pragma once

namespace maestro::kernels {

enum OptimizerScalar {
  kLearningRate = 0,
  kBiasCorrection1 = 1, ///< 1 − β1^t
  kBiasCorrection2 = 2, ///< 1 − β2^t
  kGradientScale = 3,   ///< Gradients are multiplied by it (clipping, loss scaling).
  kStep = 4,            ///< t, counted from 1.
  kOptimizerScalars = 8,
};

} // namespace maestro::kernels
