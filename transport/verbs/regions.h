// Memory that is registered with an RDMA device: the host's, and that of other devices of this machine, by dma-buf.
#pragma once

#include "base/status.h"
#include "transport/fabric.h"
#include "transport/verbs/functions.h"
#include "transport/verbs/owned.h"

#include <cstddef>
#include <span>

namespace maestro::transport {

/// What may be done with registered memory: read by this process's own writes, always; and written by others.
inline constexpr unsigned kReadable = 0, kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

/// Unavailable as the kernel says, with the remedy where this process may lock too little.
Result<Owned<ibv_mr>> registerHost(const VerbsFunctions &functions, ibv_pd *domain, std::span<const std::byte> memory,
                                   unsigned access);
/// Unavailable where whoever has the memory does not open it, or the kernel or the RDMA device's driver refuses it.
Result<Owned<ibv_mr>> registerDevice(const VerbsFunctions &functions, ibv_pd *domain, const DeviceMemory &memory,
                                     unsigned access);
/// Whether library, kernel and driver know dma-bufs at all; asked without one. Unavailable with which does not.
Status knowsDevices(const VerbsFunctions &functions, ibv_pd *domain);

} // namespace maestro::transport
