#include "cuda/cublaslt.h"

#include "base/loaded_library.h"

#include <string>

namespace maestro::cuda {
namespace {

constexpr const char *kRemedy =
    "install cuBLAS (Debian's libcublas, or pip's nvidia-cublas with its folder in LD_LIBRARY_PATH)";

Result<CublasLt> load() {
  LoadedLibrary library{"libcublasLt.so.13", "libcublasLt.so.12"}; // Their types of these functions are the same.
  if (!library)
    return Status::unavailable("products on a GPU need cuBLASLt, which cannot be loaded (" + library.failure() + "); " +
                               kRemedy);
  CublasLt functions{};
#define MAESTRO_CUBLASLT_FILL(name) library.find(functions.name, #name);
  MAESTRO_CUBLASLT_FUNCTIONS(MAESTRO_CUBLASLT_FILL)
#undef MAESTRO_CUBLASLT_FILL
  if (!library.missing().empty())
    return Status::unavailable("cuBLASLt lacks " + library.missing() + "; " + kRemedy);
  if (size_t version = functions.cublasLtGetVersion(); version < CublasLt::kMinVersion)
    return Status::unavailable("cuBLASLt has version " + std::to_string(version) + ", and " +
                               std::to_string(CublasLt::kMinVersion) + " or newer is needed; " + kRemedy);
  return functions;
}

} // namespace

Status CublasLt::check(cublasStatus_t result, std::string_view function) const {
  if (result == CUBLAS_STATUS_SUCCESS)
    return Status();
  return Status::unavailable(std::string(function) + ": " + cublasLtGetStatusName(result) + " (" +
                             cublasLtGetStatusString(result) + ")");
}

Result<const CublasLt *> loadCublasLt() {
  static const Result<CublasLt> library = load();
  return pointerTo(library);
}

} // namespace maestro::cuda
