#include "transport/verbs/regions.h"

#include <cerrno>
#include <cstring>
#include <string>
#include <sys/resource.h>

namespace maestro::transport {
namespace {

/// Counts travel as completions, which make all writes before them visible.
constexpr unsigned kOrder = IBV_ACCESS_RELAXED_ORDERING;

Status failed(const std::string &what, int error, const std::string &remedy = "") {
  return Status::unavailable(what + ": " + std::strerror(error) + remedy);
}

std::string lockRemedy(size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= bytes)
    return "";
  return "; this process may lock " + std::to_string(limit.rlim_cur) +
         " bytes: raise it (ulimit -l unlimited; docker run --ulimit memlock=-1), or use --transport libfabric";
}

} // namespace

Result<Owned<ibv_mr>> registerHost(const VerbsFunctions &functions, ibv_pd *domain, std::span<const std::byte> memory,
                                   unsigned access) {
  auto *start = const_cast<std::byte *>(memory.data());
  Owned<ibv_mr> region(
      functions.registerMemory(domain, start, memory.size(), reinterpret_cast<uintptr_t>(start), access | kOrder),
      functions.deregisterMemory);
  if (region)
    return region;
  int error = errno;
  return failed("registering " + std::to_string(memory.size()) + " bytes", error, lockRemedy(memory.size()));
}

Result<Owned<ibv_mr>> registerDevice(const VerbsFunctions &functions, ibv_pd *domain, const DeviceMemory &memory,
                                     unsigned access) {
  MAESTRO_ASSIGN(OwnDescriptor descriptor, memory.open());
  // Who registers keeps the memory by itself: the descriptor is not needed afterwards.
  Owned<ibv_mr> region(functions.registerDmaBuf(domain, 0, memory.memory.size(),
                                                reinterpret_cast<uintptr_t>(memory.memory.data()), descriptor.get(),
                                                static_cast<int>(access | kOrder)),
                       functions.deregisterMemory);
  if (region)
    return region;
  int error = errno;
  return failed("registering " + std::to_string(memory.memory.size()) + " bytes of a device (ibv_reg_dmabuf_mr)",
                error);
}

Status knowsDevices(const VerbsFunctions &functions, ibv_pd *domain) {
  if (!functions.registerDmaBuf)
    return Status::unavailable("libibverbs.so.1 has no ibv_reg_dmabuf_mr; rdma-core 34 or newer has it");
  constexpr size_t kPage = 4096;
  constexpr int kNoDescriptor = -1; // Who knows them says that this is none.
  if (ibv_mr *region = functions.registerDmaBuf(domain, 0, kPage, 0, kNoDescriptor, kReadable)) {
    (void)functions.deregisterMemory(region);
    return Status();
  }
  int error = errno;
  if (error != EOPNOTSUPP && error != EPROTONOSUPPORT && error != ENOSYS)
    return Status();
  return failed("its driver takes no memory of devices (ibv_reg_dmabuf_mr)", error,
                "; Linux 5.12 or newer and a driver such as mlx5 do");
}

} // namespace maestro::transport
