// Parameters of reductions: over each of `kept` results, `length` elements in chunks of `chunk`.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

struct ReduceParams {
  AnyTensor x;
  void *partial; ///< [chunk][result], of the type that is computed in.
  int64_t kept, length, chunk;
  Strided<1> keptMap, reducedMap;
  bool packed; ///< Of a matrix, over whose rows is summed: 16 bytes at a time.
};

inline constexpr int kMatrixColumns = 256; ///< Of a block; one a thread at the end.

/// What is done with a chunk's results, in order.
struct ReduceFinalParams {
  const void *partial;
  AnyTensor y;
  int64_t kept, chunks;
  int64_t length; ///< Of a mean.
  bool mean, adds;
};

/// Along the axis: the index of the first (or last) extreme, or the k most extreme with their indices.
struct SelectParams {
  AnyTensor x, values, indices;
  AxisDims dims;
  int64_t k;
  bool largest, last;
};

} // namespace maestro::kernels::cuda
