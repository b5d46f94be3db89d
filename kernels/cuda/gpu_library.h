// What a GPU runs a plan with.
#pragma once

#include "cuda/context.h"
#include "kernels/cuda/library.h"

namespace maestro::kernels::cuda {

/// Kernels of our own, products by cuBLASLt, without which nothing runs, and attention by cuDNN, where it is. The
/// context is current.
Result<std::unique_ptr<Library>> createGpuLibrary(const Functions &functions, const maestro::cuda::Context &context);

} // namespace maestro::kernels::cuda
