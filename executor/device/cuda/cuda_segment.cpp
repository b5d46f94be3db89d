#include "executor/device/cuda/cuda_segment.h"

#include "cuda/context.h"
#include "executor/device/cuda/rdma_memory.h"

#include <fmt/format.h>

#include <unistd.h>
#include <utility>

namespace maestro::executor {
namespace {

/// The GPUs of a machine repeat where a plan has more devices.
Result<std::unique_ptr<cuda::Context>> openContext(uint32_t device) {
  MAESTRO_ASSIGN(int count, cuda::Context::count());
  return cuda::Context::open(static_cast<int>(device) % count);
}

CUmemAllocationProp sharedProperties(const cuda::Context &context) {
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

class CudaSegment : public DeviceSegment {
public:
  explicit CudaSegment(std::unique_ptr<cuda::Context> opened) : context(std::move(opened)) {}
  ~CudaSegment() override {
    context->makeCurrent();
    if (exported >= 0)
      ::close(exported);
    if (isMapped)
      (void)driver().cuMemUnmap(base, mapped);
    if (base)
      (void)driver().cuMemAddressFree(base, mapped);
    if (hasHandle)
      (void)driver().cuMemRelease(handle);
  }

  /// In granules, as every process computes them.
  Status measure(uint64_t bytes) {
    CUmemAllocationProp properties = sharedProperties(*context);
    size_t unit = 0;
    context->makeCurrent();
    MAESTRO_CUDA_TRY(driver(), cuMemGetAllocationGranularity, &unit, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    mapped = (bytes + unit - 1) / unit * unit;
    return Status();
  }
  Status create() {
    CUmemAllocationProp properties = sharedProperties(*context);
    CUresult result = driver().cuMemCreate(&handle, mapped, &properties, 0);
    if (result != CUDA_SUCCESS) {
      size_t free = 0, total = 0;
      (void)driver().cuMemGetInfo(&free, &total);
      return Status::unavailable(
          fmt::format("cannot allocate {} bytes on {} for what other ranks write there, where {} of {} are free: {}; "
                      "plan with a smaller micro-batch, or end what else runs there (nvidia-smi shows it)",
                      mapped, context->name(), free, total, driver().check(result, "cuMemCreate").message()));
    }
    hasHandle = true;
    return Status();
  }
  Status import(int descriptor) {
    MAESTRO_CUDA_TRY(driver(), cuMemImportFromShareableHandle, &handle,
                     reinterpret_cast<void *>(static_cast<intptr_t>(descriptor)),
                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    hasHandle = true;
    return Status();
  }
  Status map() {
    MAESTRO_CUDA_TRY(driver(), cuMemAddressReserve, &base, mapped, 0, 0, 0);
    MAESTRO_CUDA_TRY(driver(), cuMemMap, base, mapped, 0, handle, 0);
    isMapped = true;
    return allowDevice(context->device());
  }
  Status zero() {
    CUstream stream;
    MAESTRO_CUDA_TRY(driver(), cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    Status status = driver().check(driver().cuMemsetD8Async(base, 0, mapped, stream), "cuMemsetD8Async");
    if (status.isOk())
      status = driver().check(driver().cuStreamSynchronize(stream), "cuStreamSynchronize");
    (void)driver().cuStreamDestroy(stream);
    return status;
  }

  std::byte *address() const override { return reinterpret_cast<std::byte *>(base); }
  Result<int> descriptor() override {
    context->makeCurrent();
    if (exported < 0)
      if (Status status = driver().check(
              driver().cuMemExportToShareableHandle(&exported, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              "cuMemExportToShareableHandle");
          !status.isOk()) {
        exported = -1;
        return std::move(status).withContext(context->name());
      }
    return exported;
  }
  Status allow(uint32_t device) override {
    MAESTRO_ASSIGN(int count, cuda::Context::count());
    CUdevice other;
    MAESTRO_CUDA_TRY(driver(), cuDeviceGet, &other, static_cast<int>(device) % count);
    return other == context->device() ? Status() : allowDevice(other);
  }
  Result<transport::DeviceMemory> forNics() override { return memoryWrittenByNics(*context, base, mapped); }

private:
  const cuda::Driver &driver() const { return context->driver(); }
  Status allowDevice(CUdevice device) {
    context->makeCurrent();
    CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return driver()
        .check(driver().cuMemSetAccess(base, mapped, &access, 1), "cuMemSetAccess")
        .withContext(fmt::format("GPU {} has no way to memory that ranks share", device));
  }

  std::unique_ptr<cuda::Context> context;
  uint64_t mapped = 0;
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle handle = 0;
  bool hasHandle = false, isMapped = false;
  int exported = -1;
};

} // namespace

Result<std::unique_ptr<DeviceSegment>> createCudaSegment(uint32_t device, uint64_t bytes) {
  MAESTRO_ASSIGN(auto context, openContext(device));
  auto segment = std::make_unique<CudaSegment>(std::move(context));
  MAESTRO_TRY(segment->measure(bytes));
  MAESTRO_TRY(segment->create());
  MAESTRO_TRY(segment->map());
  MAESTRO_TRY(segment->zero());
  return std::unique_ptr<DeviceSegment>(std::move(segment));
}

Result<std::unique_ptr<DeviceSegment>> openCudaSegment(uint32_t device, int descriptor, uint64_t bytes) {
  MAESTRO_ASSIGN(auto context, openContext(device));
  auto segment = std::make_unique<CudaSegment>(std::move(context));
  MAESTRO_TRY(segment->measure(bytes));
  MAESTRO_TRY(segment->import(descriptor));
  MAESTRO_TRY(segment->map());
  return std::unique_ptr<DeviceSegment>(std::move(segment));
}

} // namespace maestro::executor
