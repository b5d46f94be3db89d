// Parameters of Adafactor's kernels. All share one struct; rows and columns as kernels/adafactor.h has them.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

struct AdafactorParams {
  float *param;
  const float *grad;
  float *cleared;                       ///< The gradient, where it is cleared.
  float *rowMeans, *second;             ///< States: second is the columns' means, or a vector's second moment.
  const float *scalars;                 ///< kernels/optimizer_scalars.h
  AnyTensor copy;                       ///< The parameter once more, where it is asked for.
  double *paramSquares, *updateSquares; ///< A sum a row; then, as `…Sum`, of all.
  const double *paramSquaresSum, *updateSquaresSum;
  double *columnSums; ///< [matrices, chunks, columns]: of squared gradients in kRowsPerChunk rows.
  float *meanOfRows;  ///< A number a matrix.
  int64_t matrices, rows, columns, count, chunks;
  double beta2Decay, weightDecay;
  float eps1, eps2, clip;
  bool factored;
};

inline constexpr int64_t kRowsPerChunk = 256;

} // namespace maestro::kernels::cuda
