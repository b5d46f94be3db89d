// Parameters of the optimizers' steps and of the sum of squares.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

struct AdamParams {
  float *param, *m, *v;
  const float *grad;
  const float *scalars; ///< kernels/optimizer.h
  float *cleared;       ///< The gradient, where it is cleared.
  AnyTensor copy;       ///< The parameter once more, where it is asked for.
  int64_t count;
  double weightDecay;
  float beta2, oneMinusBeta1, oneMinusBeta2, addedDecay, eps;
  bool decoupled;
  bool packed; ///< 16 bytes at a time.
};

struct SgdParams {
  float *param, *momentumBuffer; ///< The buffer is absent without momentum.
  const float *grad;
  const float *scalars;
  float *cleared;
  AnyTensor copy;
  int64_t count;
  float momentum, weightDecay;
  bool nesterov;
  bool packed;
};

/// The moving average of a parameter.
struct AverageParams {
  const float *param;
  float *average;
  const float *scalars;
  int64_t count;
  float oneMinusDecay;
};

struct SumSquaresParams {
  AnyTensor x;
  double *partial; ///< One a block.
  int64_t count;
  bool packed; ///< f32, 16 bytes at a time.
};

/// result = (old) + Σ partial, by one block.
struct SumPartialParams {
  const double *partial;
  double *result;
  int64_t count;
  bool adds;
};

inline constexpr int64_t kSquaresPerBlock = 8192;
inline constexpr int kUpdatesPerThread = 4;

} // namespace maestro::kernels::cuda
