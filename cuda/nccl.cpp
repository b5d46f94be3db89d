#include "cuda/nccl.h"

#include <dlfcn.h>

#include <type_traits>

namespace maestro::cuda {
namespace {

constexpr const char *kLibrary = "libnccl.so.2";
constexpr const char *kRemedy = "install NCCL (NVIDIA's libnccl2, or pip's nvidia-nccl-cu13 with its folder in "
                                "LD_LIBRARY_PATH), or do without it: --transport auto";

Result<Nccl> load() {
  void *library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return Status::unavailable(std::string(kLibrary) + " cannot be loaded (" + ::dlerror() + "); " + kRemedy);
  Nccl functions{};
  std::string missing;
  auto fill = [&](auto &function, const char *name) {
    void *address = ::dlsym(library, name);
    if (!address)
      missing = missing.empty() ? name : missing;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
#define MAESTRO_NCCL_FILL(name) fill(functions.name, #name);
  MAESTRO_NCCL_FILL(ncclGetVersion)
  MAESTRO_NCCL_FILL(ncclGetUniqueId)
  MAESTRO_NCCL_FILL(ncclGetErrorString)
  MAESTRO_NCCL_FILL(ncclGetLastError)
  MAESTRO_NCCL_FILL(ncclCommInitRankConfig)
  MAESTRO_NCCL_FILL(ncclCommDestroy)
  MAESTRO_NCCL_FILL(ncclCommAbort)
  MAESTRO_NCCL_FILL(ncclCommGetAsyncError)
  MAESTRO_NCCL_FILL(ncclSend)
  MAESTRO_NCCL_FILL(ncclRecv)
#undef MAESTRO_NCCL_FILL
  int version = 0;
  if (functions.ncclGetVersion)
    (void)functions.ncclGetVersion(&version);
  if (version < Nccl::kMinVersion)
    return Status::unavailable(std::string(kLibrary) + " has version " + ncclVersionText(version) + ", and " +
                               ncclVersionText(Nccl::kMinVersion) + " or newer is needed; " + kRemedy);
  if (!missing.empty())
    return Status::unavailable(std::string(kLibrary) + " " + ncclVersionText(version) + " lacks " + missing + "; " +
                               kRemedy);
  functions.version = version;
  return functions;
}

} // namespace

std::string ncclVersionText(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Status Nccl::check(NcclResult result, std::string_view function, NcclCommunicator *communicator) const {
  if (result == NcclResult::Success || result == NcclResult::InProgress)
    return Status();
  std::string text = std::string(function) + ": " + ncclGetErrorString(result);
  if (const char *last = ncclGetLastError(communicator); last && *last)
    text += std::string(" (") + last + ")";
  return Status::unavailable(text);
}

Result<const Nccl *> loadNccl() {
  static const Result<Nccl> library = load();
  if (!library)
    return Status(library.status().code(), std::string(library.status().message()));
  return &*library;
}

} // namespace maestro::cuda
