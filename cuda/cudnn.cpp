#include "cuda/cudnn.h"

#include <dlfcn.h>

namespace maestro::cuda {
namespace {

constexpr const char *kLibrary = "libcudnn.so.9";
constexpr const char *kRemedy =
    "install cuDNN 9 (NVIDIA's libcudnn9, or pip's nvidia-cudnn-cu13 with its folder in LD_LIBRARY_PATH)";

Result<Cudnn> load() {
  void *library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::unavailable(std::string(kLibrary) + " cannot be loaded (" + ::dlerror() + "); " + kRemedy);
  Cudnn functions{};
  std::string missing;
  auto fill = [&](auto &function, const char *name) {
    void *address = ::dlsym(library, name);
    if (!address)
      missing = missing.empty() ? name : missing;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
#define MAESTRO_CUDNN_FILL(name) fill(functions.name, #name);
  MAESTRO_CUDNN_FUNCTIONS(MAESTRO_CUDNN_FILL)
#undef MAESTRO_CUDNN_FILL
  if (!missing.empty())
    return Status::unavailable(std::string(kLibrary) + " lacks " + missing + "; " + kRemedy);
  if (size_t version = functions.version(); version < Cudnn::kMinVersion)
    return Status::unavailable("cuDNN is " + cudnnVersionText(version) + ", and " +
                               cudnnVersionText(Cudnn::kMinVersion) + " or newer is needed; " + kRemedy);
  return functions;
}

} // namespace

std::string cudnnVersionText(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Status Cudnn::check(cudnnStatus_t result, std::string_view function) const {
  if (result == CUDNN_STATUS_SUCCESS)
    return Status();
  char said[512] = "";
  cudnnGetLastErrorString(said, sizeof said);
  return Status::unavailable(std::string(function) + ": " + cudnnGetErrorString(result) + " (" + said + ")");
}

Result<const Cudnn *> loadCudnn() {
  static const Result<Cudnn> library = load();
  if (!library)
    return Status(library.status().code(), std::string(library.status().message()));
  return &*library;
}

} // namespace maestro::cuda
