#include "cuda/shared_block.h"

#include <string>
#include <unistd.h>
#include <utility>

namespace maestro::cuda {

Result<std::unique_ptr<SharedBlock>> SharedBlock::create(const Context &context, uint64_t bytes,
                                                         std::string_view purpose) {
  std::unique_ptr<SharedBlock> block(new SharedBlock(context));
  MAESTRO_TRY(block->measure(bytes));
  MAESTRO_TRY(block->allocate(purpose));
  MAESTRO_TRY(block->map());
  MAESTRO_TRY(block->zero());
  return block;
}

Result<std::unique_ptr<SharedBlock>> SharedBlock::import(const Context &context, int descriptor, uint64_t bytes) {
  std::unique_ptr<SharedBlock> block(new SharedBlock(context));
  MAESTRO_TRY(block->measure(bytes));
  MAESTRO_CUDA_TRY(block->driver(), cuMemImportFromShareableHandle, &block->handle,
                   reinterpret_cast<void *>(static_cast<intptr_t>(descriptor)),
                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  block->hasHandle = true;
  MAESTRO_TRY(block->map());
  return block;
}

SharedBlock::~SharedBlock() {
  context.makeCurrent();
  if (exported >= 0)
    ::close(exported);
  if (isMapped)
    (void)driver().cuMemUnmap(base, mapped);
  if (base)
    (void)driver().cuMemAddressFree(base, mapped);
  if (hasHandle)
    (void)driver().cuMemRelease(handle);
}

CUmemAllocationProp SharedBlock::properties() const {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = context.device();
  if (context.attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) != 0)
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.allocFlags.gpuDirectRDMACapable =
      context.attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0;
  return properties;
}

/// In granules, as every process computes them.
Status SharedBlock::measure(uint64_t wanted) {
  CUmemAllocationProp own = properties();
  size_t unit = 0;
  context.makeCurrent();
  MAESTRO_CUDA_TRY(driver(), cuMemGetAllocationGranularity, &unit, &own, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  mapped = (wanted + unit - 1) / unit * unit;
  return Status();
}

Status SharedBlock::allocate(std::string_view purpose) {
  CUmemAllocationProp own = properties();
  CUresult result = driver().cuMemCreate(&handle, mapped, &own, 0);
  if (result != CUDA_SUCCESS) {
    size_t free = 0, total = 0;
    (void)driver().cuMemGetInfo(&free, &total);
    return Status::unavailable("cannot allocate " + std::to_string(mapped) + " bytes on " + context.name() + " for " +
                               std::string(purpose) + ", where " + std::to_string(free) + " of " +
                               std::to_string(total) +
                               " are free: " + std::string(driver().check(result, "cuMemCreate").message()) +
                               "; plan with a smaller micro-batch, or end what else runs there (nvidia-smi shows it)");
  }
  hasHandle = true;
  return Status();
}

Status SharedBlock::map() {
  MAESTRO_CUDA_TRY(driver(), cuMemAddressReserve, &base, mapped, 0, 0, 0);
  MAESTRO_CUDA_TRY(driver(), cuMemMap, base, mapped, 0, handle, 0);
  isMapped = true;
  return allowDevice(context.device());
}

Status SharedBlock::zero() const {
  CUstream stream;
  MAESTRO_CUDA_TRY(driver(), cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  Status status = driver().check(driver().cuMemsetD8Async(base, 0, mapped, stream), "cuMemsetD8Async");
  if (status.isOk())
    status = driver().check(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
  (void)driver().cuStreamDestroy(stream);
  return status;
}

Result<int> SharedBlock::descriptor() {
  context.makeCurrent();
  if (exported < 0)
    if (Status status = driver().check(
            driver().cuMemExportToShareableHandle(&exported, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            "cuMemExportToShareableHandle");
        !status.isOk()) {
      exported = -1;
      return std::move(status).withContext(context.name());
    }
  return exported;
}

Status SharedBlock::allow(int ordinal) {
  CUdevice other;
  MAESTRO_CUDA_TRY(driver(), cuDeviceGet, &other, ordinal);
  return other == context.device() ? Status() : allowDevice(other);
}

Status SharedBlock::allowDevice(CUdevice device) {
  context.makeCurrent();
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  return driver()
      .check(driver().cuMemSetAccess(base, mapped, &access, 1), "cuMemSetAccess")
      .withContext("GPU " + std::to_string(device) + " has no way to memory that ranks share");
}

} // namespace maestro::cuda
