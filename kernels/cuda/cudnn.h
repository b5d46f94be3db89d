// Attention by cuDNN, as a library that has two kernels: what it does not take (f32, depths that are no multiple of 8,
// a machine without cuDNN) it leaves to the loops of attention.h, and says so once.
#pragma once

#include "kernels/cuda/library.h"

#include <cstdint>
#include <string>

namespace maestro::kernels::cuda {

struct CudnnOptions {
  int computeCapability = 90;               ///< 10 × major + minor.
  int64_t maxScoreBytes = int64_t{1} << 30; ///< Of scores' gradients that a call keeps at a time.
};

/// Never fails: without cuDNN it takes no call. A context is current whenever calls are prepared or enqueued.
/// `functions` outlives the library and its kernels.
std::unique_ptr<Library> createCudnnLibrary(const Functions &functions, const CudnnOptions &options);

/// "9.26.0", or "none".
std::string cudnnVersion();

} // namespace maestro::kernels::cuda
