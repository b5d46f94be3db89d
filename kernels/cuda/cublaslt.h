// Products by cuBLASLt, as a library that has one kernel: what it does not take (integers, f64, nothing to sum over) it
// leaves to the loops of product.h.
#pragma once

#include "cuda/cublaslt.h"
#include "kernels/cuda/library.h"

namespace maestro::kernels::cuda {

/// A context is current, here and whenever calls are prepared or enqueued. `functions` outlives the library and its
/// kernels.
Result<std::unique_ptr<Library>> createCublasLtLibrary(const maestro::cuda::CublasLt &cublasLt,
                                                       const Functions &functions);

} // namespace maestro::kernels::cuda
