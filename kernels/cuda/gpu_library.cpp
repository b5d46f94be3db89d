#include "kernels/cuda/gpu_library.h"

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/cudnn.h"

namespace maestro::kernels::cuda {

Result<std::unique_ptr<Library>> createGpuLibrary(const Functions &functions, const maestro::cuda::Context &context) {
  MAESTRO_ASSIGN(const maestro::cuda::CublasLt *cublasLt, maestro::cuda::loadCublasLt());
  Libraries first;
  MAESTRO_ASSIGN(first.emplace_back(), createCublasLtLibrary(*cublasLt, functions));
  CudnnOptions options;
  options.computeCapability = 10 * context.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                              context.attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  first.push_back(createCudnnLibrary(functions, options));
  return createLibrary(functions, std::move(first));
}

std::map<std::string, std::string> libraryVersions() {
  auto cublasLt = maestro::cuda::loadCublasLt();
  return {{"cublaslt", cublasLt ? std::to_string((*cublasLt)->cublasLtGetVersion()) : "none"},
          {"cudnn", cudnnVersion()}};
}

} // namespace maestro::kernels::cuda
