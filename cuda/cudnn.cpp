#include "cuda/cudnn.h"

#include "base/loaded_library.h"

namespace maestro::cuda {
namespace {

constexpr const char *kLibrary = "libcudnn.so.9";
constexpr const char *kRemedy =
    "install cuDNN 9 (NVIDIA's libcudnn9, or pip's nvidia-cudnn-cu13 with its folder in LD_LIBRARY_PATH)";

Result<Cudnn> load() {
  LoadedLibrary library{kLibrary};
  if (!library)
    return Status::unavailable(std::string(kLibrary) + " cannot be loaded (" + library.failure() + "); " + kRemedy);
  Cudnn functions{};
#define MAESTRO_CUDNN_FILL(name) library.find(functions.name, #name);
  MAESTRO_CUDNN_FUNCTIONS(MAESTRO_CUDNN_FILL)
#undef MAESTRO_CUDNN_FILL
  if (!library.missing().empty())
    return Status::unavailable(std::string(kLibrary) + " lacks " + library.missing() + "; " + kRemedy);
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
  return pointerTo(library);
}

} // namespace maestro::cuda
