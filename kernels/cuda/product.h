// Parameters of products without a library: matrices that cuBLASLt does not take, convolutions and pools.
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

/// y[…, m, n] = (addend, or old) + a[…, m, k] · b[…, k, n] (+ bias[n]).
struct MatmulParams {
  AnyTensor a, b, bias, addend, y; ///< addend: y itself, where products are added to it; absent where to nothing.
  int64_t count, m, n, k;
  Strided<2> batch; ///< Of y's matrices to a's and b's first elements.
  bool transposeA, transposeB;
};

/// kernels/window.h as plain data.
struct WindowDims {
  int64_t input[3], kernel[3], output[3], stride[3], dilation[3], low[3], high[3];
};

/// x [N, C, spatial…], w [M, C/group, taps…], y [N, M, spatial…].
struct ConvParams {
  AnyTensor x, w, bias, y;
  WindowDims window;
  int64_t samples, inChannels, outChannels, groups;
};

struct PoolParams {
  AnyTensor x, dy, y; ///< y: the result, dx of a gradient.
  WindowDims window;
  int64_t planes;
  bool countPadding;
};

} // namespace maestro::kernels::cuda
