// What a GPU runs a plan with.
#pragma once

#include "cuda/context.h"
#include "kernels/cuda/library.h"

#include <map>
#include <string>

namespace maestro::kernels::cuda {

/// Kernels of our own, products by cuBLASLt, without which nothing runs, and attention by cuDNN, where it is. The
/// context is current.
Result<std::unique_ptr<Library>> createGpuLibrary(const Functions &functions, const maestro::cuda::Context &context);

/// "cublaslt" and "cudnn" with the versions that are loaded, or "none": the bits of results depend on them.
std::map<std::string, std::string> libraryVersions();

} // namespace maestro::kernels::cuda
