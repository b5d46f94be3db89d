#include "cuda/nccl.h"

#include "base/loaded_library.h"

#include <type_traits>

namespace maestro::cuda {
namespace {

constexpr const char *kLibrary = "libnccl.so.2";
constexpr const char *kRemedy = "install NCCL (NVIDIA's libnccl2, or pip's nvidia-nccl-cu13 with its folder in "
                                "LD_LIBRARY_PATH), or do without it: --transport auto";

Result<Nccl> load() {
  LoadedLibrary library{kLibrary};
  if (!library)
    return Status::unavailable(std::string(kLibrary) + " cannot be loaded (" + library.failure() + "); " + kRemedy);
  Nccl functions{};
#define MAESTRO_NCCL_FILL(name) library.find(functions.name, #name);
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
  int version = 0;
  if (functions.ncclGetVersion)
    (void)functions.ncclGetVersion(&version);
  if (version >= Nccl::kPuts) {
    MAESTRO_NCCL_FILL(ncclCommQueryProperties)
    MAESTRO_NCCL_FILL(ncclCommWindowRegister)
    MAESTRO_NCCL_FILL(ncclCommWindowDeregister)
    MAESTRO_NCCL_FILL(ncclPutSignal)
    MAESTRO_NCCL_FILL(ncclWaitSignal)
  }
#undef MAESTRO_NCCL_FILL
  if (version < Nccl::kMinVersion)
    return Status::unavailable(std::string(kLibrary) + " has version " + ncclVersionText(version) + ", and " +
                               ncclVersionText(Nccl::kMinVersion) + " or newer is needed; " + kRemedy);
  if (!library.missing().empty())
    return Status::unavailable(std::string(kLibrary) + " " + ncclVersionText(version) + " lacks " + library.missing() +
                               "; " + kRemedy);
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
  return pointerTo(library);
}

} // namespace maestro::cuda
