// Parameters of convolutions as products: patches of x as rows of a matrix, and such a matrix added up to x.
#pragma once

#include "kernels/cuda/product.h"

namespace maestro::kernels::cuda {

/// Of so many samples at a time as this holds.
inline constexpr int64_t kMaxPatchBytes = int64_t{256} << 20;

/// x [N, C, spatial…] and patches [N·outputs, C·taps], zeros where a window leaves x.
struct PatchParams {
  void *x, *patches;
  WindowDims window;
  int64_t samples, channels;
};

} // namespace maestro::kernels::cuda
