#include "executor/device/cuda/arena.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::executor {
namespace {

CUmemAllocationProp propertiesOf(const cuda::Context &context) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = context.device();
  properties.allocFlags.gpuDirectRDMACapable =
      context.attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) != 0;
  return properties;
}

uint64_t roundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

} // namespace

Arena::~Arena() {
  const cuda::Driver &driver = context.driver();
  context.makeCurrent();
  if (mapped > 0)
    (void)driver.cuMemUnmap(base, mapped);
  if (reserved > 0)
    (void)driver.cuMemAddressFree(base, reserved);
}

Result<CUdeviceptr> Arena::allocate(uint64_t bytes, std::string_view purpose, CUstream stream) {
  uint64_t offset = used;
  if (bytes > UINT64_MAX / 2 || offset > UINT64_MAX / 2)
    return Status::unavailable(fmt::format("cannot allocate {} bytes for {} on {}", bytes, purpose, context.name()));
  MAESTRO_TRY(grow(offset + roundUp(std::max<uint64_t>(bytes, 1), kAlignment), purpose));
  used = offset + roundUp(std::max<uint64_t>(bytes, 1), kAlignment);
  MAESTRO_TRY(zero(base + offset, bytes, stream));
  return base + offset;
}

Status Arena::zero(CUdeviceptr start, uint64_t bytes, CUstream stream) const {
  if (bytes == 0)
    return Status();
  const cuda::Driver &driver = context.driver();
  MAESTRO_CUDA_TRY(driver, cuMemsetD8Async, start, 0, bytes, stream);
  MAESTRO_CUDA_TRY(driver, cuStreamSynchronize, stream);
  return Status();
}

Status Arena::grow(uint64_t bytes, std::string_view purpose) {
  context.makeCurrent();
  MAESTRO_TRY(reserve());
  if (bytes <= mapped)
    return Status();
  Status status = bytes <= reserved ? map(roundUp(bytes - mapped, granule)) : Status::unavailable("out of memory");
  if (status.isOk())
    return status;
  size_t free = 0, total = 0;
  (void)context.driver().cuMemGetInfo(&free, &total);
  return Status::unavailable(fmt::format(
      "cannot allocate {} bytes for {} on {}, where this rank has {} already and {} of {} are free: {}; plan with a "
      "smaller micro-batch, or end what else runs there (nvidia-smi shows it)",
      bytes - used, purpose, context.name(), mapped, free, total, status.message()));
}

/// Addresses for as much as the GPU has; they cost nothing.
Status Arena::reserve() {
  if (reserved > 0)
    return Status();
  const cuda::Driver &driver = context.driver();
  CUmemAllocationProp properties = propertiesOf(context);
  size_t unit = 0, total = 0;
  MAESTRO_CUDA_TRY(driver, cuMemGetAllocationGranularity, &unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  MAESTRO_CUDA_TRY(driver, cuDeviceTotalMem, &total, context.device());
  uint64_t bytes = roundUp(total, unit);
  MAESTRO_CUDA_TRY(driver, cuMemAddressReserve, &base, bytes, 0, 0, 0);
  granule = unit;
  reserved = bytes;
  return Status();
}

Status Arena::map(uint64_t bytes) {
  const cuda::Driver &driver = context.driver();
  CUmemAllocationProp properties = propertiesOf(context);
  CUmemGenericAllocationHandle handle;
  MAESTRO_CUDA_TRY(driver, cuMemCreate, &handle, bytes, &properties, 0);
  Status status = driver.check(driver.cuMemMap(base + mapped, bytes, 0, handle, 0), "cuMemMap");
  (void)driver.cuMemRelease(handle); // The mapping keeps it.
  MAESTRO_TRY(std::move(status));
  CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr start = base + mapped;
  mapped += bytes;
  MAESTRO_CUDA_TRY(driver, cuMemSetAccess, start, bytes, &access, 1);
  return Status();
}

} // namespace maestro::executor
