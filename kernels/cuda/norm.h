// Parameters of layer_norm, rms_norm and their gradients: `rows` of `width` elements.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

struct NormParams {
  const void *x, *scale, *bias; ///< scale and bias may be absent.
  void *y;
  float *mean, *rstd; ///< mean: of layer_norm alone.
  int64_t rows, width;
  float epsilon;
  bool narrowWeights; ///< scale and bias are bf16.
  bool packed;
};

struct NormGradParams {
  const void *dy, *x, *scale;
  const float *mean, *rstd;
  void *dx;
  float *dscale, *dbias; ///< Sums over `perGroup` rows each, of the kernels that make them; absent where nobody asks.
  int64_t rows, width, perGroup;
  bool narrowWeights; ///< scale is bf16.
  bool packed;
};

/// Sums over rows, in chunks of `chunkRows`: [chunk][column], dscale's, then dbias's.
struct NormSumsParams {
  const void *dy, *x;
  const float *mean, *rstd;
  float *dscale, *dbias; ///< Partial sums; absent where nobody asks.
  int64_t rows, width, chunkRows;
};

inline constexpr int kSumColumns = 8;

/// result[column] = (old) + Σ over chunks of partial[chunk][column].
struct ColumnSumParams {
  const float *partial;
  float *result;
  int64_t chunks, width;
  bool adds;
};

} // namespace maestro::kernels::cuda
