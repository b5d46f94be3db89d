#include "cuda/cublaslt.h"

#include <dlfcn.h>

#include <string>

namespace maestro::cuda {
namespace {

/// Newest first; their types of these functions are the same.
constexpr const char *kLibraries[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
constexpr const char *kRemedy =
    "install cuBLAS (Debian's libcublas, or pip's nvidia-cublas with its folder in LD_LIBRARY_PATH)";

Result<CublasLt> load() {
  void *library = nullptr;
  std::string failures;
  for (const char *name : kLibraries) {
    library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library)
      break;
    failures += (failures.empty() ? "" : "; ") + std::string(::dlerror());
  }
  if (!library)
    return Status::unavailable("products on a GPU need cuBLASLt, which cannot be loaded (" + failures + "); " +
                               kRemedy);
  CublasLt functions{};
  std::string missing;
  auto fill = [&](auto &function, const char *name) {
    void *address = ::dlsym(library, name);
    if (!address)
      missing = missing.empty() ? name : missing;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
#define MAESTRO_CUBLASLT_FILL(name) fill(functions.name, #name);
  MAESTRO_CUBLASLT_FUNCTIONS(MAESTRO_CUBLASLT_FILL)
#undef MAESTRO_CUBLASLT_FILL
  if (!missing.empty())
    return Status::unavailable("cuBLASLt lacks " + missing + "; " + kRemedy);
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
  if (!library)
    return Status(library.status().code(), std::string(library.status().message()));
  return &*library;
}

} // namespace maestro::cuda
