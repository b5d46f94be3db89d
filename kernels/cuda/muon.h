// Parameters of Muon's own kernels; its products are the library's matmul.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

/// Momentum; x = what is to be made orthogonal, and Σ x² of each block's elements.
struct MuonMomentumParams {
  const float *grad;
  float *buffer;
  float *cleared; ///< The gradient, where it is cleared.
  uint16_t *x;    ///< bf16
  double *partial;
  const float *scalars; ///< kernels/optimizer_scalars.h
  int64_t count;
  float momentum;
  bool nesterov;
};

/// x /= max(√squares, eps)
struct MuonScaleParams {
  uint16_t *x;
  const double *squares;
  int64_t count;
  float eps;
};

/// x = a·x + b·y
struct MuonCombineParams {
  uint16_t *x;
  const uint16_t *y;
  int64_t count;
  float a, b;
};

struct MuonApplyParams {
  float *param;
  const uint16_t *x;
  AnyTensor copy; ///< The parameter once more, where it is asked for.
  const float *scalars;
  int64_t count;
  double weightDecay, ratio;
};

} // namespace maestro::kernels::cuda
