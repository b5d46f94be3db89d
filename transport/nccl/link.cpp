#include "transport/nccl/link.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace maestro::transport {

NcclLink::~NcclLink() {
  context.makeCurrent();
  closeWindow();
  if (communicator && !isGivenUp)
    (void)(isReady ? nccl.ncclCommDestroy : nccl.ncclCommAbort)(communicator);
  if (stream)
    (void)driver().cuStreamDestroy(stream);
  for (CUevent event : events)
    if (event)
      (void)driver().cuEventDestroy(event);
}

Status NcclLink::open(const cuda::NcclUniqueId &id, int ownSide) {
  side = ownSide;
  context.makeCurrent();
  MAESTRO_CUDA_TRY(driver(), cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  for (CUevent &event : events)
    MAESTRO_CUDA_TRY(driver(), cuEventCreate, &event, CU_EVENT_DISABLE_TIMING);
  cuda::NcclConfig config;
  MAESTRO_NCCL_TRY(nccl, ncclCommInitRankConfig, &communicator, 2, id, side, &config);
  MAESTRO_TRY(settle("ncclCommInitRankConfig"));
  isReady = true;
  return Status();
}

Status NcclLink::openWindow(const Window &own) {
  context.makeCurrent();
  cuda::NcclProperties properties;
  MAESTRO_NCCL_TRY(nccl, ncclCommQueryProperties, communicator, &properties);
  if (!properties.canPut) // Of the communicator, so on both sides.
    return Status();
  MAESTRO_TRY(
      nccl.check(nccl.ncclCommWindowRegister(communicator, own.memory, own.bytes, &registered, cuda::Nccl::kSymmetric),
                 "ncclCommWindowRegister", communicator));
  MAESTRO_TRY(settle("ncclCommWindowRegister"));
  window = registered;
  stage = own.memory + own.stageOffset;
  stageBytes = own.stageBytes;
  return Status();
}

void NcclLink::closeWindow() {
  if (window && !isGivenUp) {
    context.makeCurrent();
    (void)nccl.ncclCommWindowDeregister(communicator, window);
  }
  window = nullptr;
}

Status NcclLink::send(const std::byte *from, uint64_t bytes, uint64_t offset) {
  context.makeCurrent();
  if (window) {
    MAESTRO_TRY(put(from, bytes, offset));
    return note();
  }
  MAESTRO_TRY(nccl.check(nccl.ncclSend(from, bytes, cuda::Nccl::kUint8, kReceiver, communicator, stream), "ncclSend",
                         communicator));
  MAESTRO_TRY(settle("ncclSend"));
  return note();
}

/// The stage is free again when the stream has passed the put.
Status NcclLink::put(const std::byte *from, uint64_t bytes, uint64_t offset) {
  for (uint64_t at = 0; at < bytes; at += stageBytes) {
    uint64_t count = std::min(stageBytes, bytes - at);
    MAESTRO_CUDA_TRY(driver(), cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(stage),
                     reinterpret_cast<CUdeviceptr>(from + at), count, stream);
    MAESTRO_TRY(nccl.check(nccl.ncclPutSignal(stage, count, cuda::Nccl::kUint8, kReceiver, window, offset + at, 0, 0, 0,
                                              communicator, stream),
                           "ncclPutSignal", communicator));
    MAESTRO_TRY(settle("ncclPutSignal"));
  }
  return Status();
}

Status NcclLink::receive(std::byte *to, uint64_t bytes) {
  context.makeCurrent();
  if (window) {
    cuda::NcclSignals signals{static_cast<int>((bytes + stageBytes - 1) / stageBytes), kSender};
    MAESTRO_TRY(nccl.check(nccl.ncclWaitSignal(1, &signals, communicator, stream), "ncclWaitSignal", communicator));
    MAESTRO_TRY(settle("ncclWaitSignal"));
    return note();
  }
  MAESTRO_TRY(nccl.check(nccl.ncclRecv(to, bytes, cuda::Nccl::kUint8, kSender, communicator, stream), "ncclRecv",
                         communicator));
  MAESTRO_TRY(settle("ncclRecv"));
  return note();
}

Status NcclLink::note() {
  MAESTRO_CUDA_TRY(driver(), cuEventRecord, events[count % kEvents], stream);
  ++count;
  return Status();
}

bool NcclLink::look() {
  if (done == count.load())
    return false;
  context.makeCurrent();
  if (driver().cuEventQuery(events[done % kEvents]) != CUDA_SUCCESS)
    return false;
  ++done;
  return true;
}

Status NcclLink::synchronize() {
  while (done < count.load())
    if (!look()) {
      MAESTRO_TRY(abort.status());
      MAESTRO_TRY(error());
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  return Status();
}

Status NcclLink::error() const {
  auto result = cuda::NcclResult::Success;
  MAESTRO_NCCL_TRY(nccl, ncclCommGetAsyncError, communicator, &result);
  return nccl.check(result, "a communicator", communicator);
}

/// Until what was called has been done, or the job ends: with a peer that is gone it never is.
Status NcclLink::settle(std::string_view function) const {
  auto result = cuda::NcclResult::InProgress;
  while (true) {
    MAESTRO_NCCL_TRY(nccl, ncclCommGetAsyncError, communicator, &result);
    if (result != cuda::NcclResult::InProgress)
      return nccl.check(result, function, communicator);
    MAESTRO_TRY(abort.status());
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void NcclLink::giveUp() {
  context.makeCurrent();
  if (communicator && !std::exchange(isGivenUp, true))
    (void)nccl.ncclCommAbort(communicator);
}

} // namespace maestro::transport
