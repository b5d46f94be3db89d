// Parameters of softmax, log_softmax and their gradients, along the middle of [outer, axis, inner].
#pragma once

#include "kernels/cuda/params.h"

namespace maestro::kernels::cuda {

struct SoftmaxParams {
  const void *x; ///< The result y, of a gradient.
  const void *dy;
  void *y; ///< dx, of a gradient. May lie over an operand.
  AxisDims dims;
  bool logarithm, packed;
};

} // namespace maestro::kernels::cuda
