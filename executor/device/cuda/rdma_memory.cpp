#include "executor/device/cuda/rdma_memory.h"

#include <unistd.h>

namespace maestro::executor {
namespace {

/// CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, which headers before CUDA 12.8 do not name and drivers do not take.
constexpr unsigned long long kByPcie = 1;

/// Where memory of the GPU is the host's, too (Grace), a NIC reaches it as it reaches the host's, and one way keeps
/// order.
bool isCoherent(const cuda::Context &context) {
  return context.attribute(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) != 0;
}

Status checkExports(const cuda::Context &context) {
  if (context.attribute(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) != 0)
    return Status();
  return Status::unavailable(context.name() + ": its driver exports no memory by dma-buf; NVIDIA's open kernel modules "
                                              "(nvidia-open) on Linux 5.12 or newer do");
}

Result<transport::OwnDescriptor> open(const cuda::Context &context, CUdeviceptr start, uint64_t bytes) {
  MAESTRO_TRY(checkExports(context));
  const cuda::Driver &driver = context.driver();
  context.makeCurrent();
  int descriptor = -1;
  auto ask = [&](unsigned long long flags) {
    return driver.cuMemGetHandleForAddressRange(&descriptor, start, bytes, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
  };
  CUresult result = isCoherent(context) ? CUDA_ERROR_NOT_SUPPORTED : ask(kByPcie);
  if (result != CUDA_SUCCESS)
    result = ask(0);
  MAESTRO_TRY(driver.check(result, "cuMemGetHandleForAddressRange").withContext(context.name()));
  return transport::OwnDescriptor(descriptor);
}

Status flush(const cuda::Context &context) {
  const cuda::Driver &driver = context.driver();
  context.makeCurrent();
  return driver
      .check(driver.cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                               CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
             "cuFlushGPUDirectRDMAWrites")
      .withContext(context.name());
}

} // namespace

transport::DeviceMemory memoryForNics(const cuda::Context &context, CUdeviceptr start, uint64_t bytes) {
  auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  CUdeviceptr first = start / page * page, end = (start + bytes + page - 1) / page * page;
  transport::DeviceMemory memory;
  memory.memory = {reinterpret_cast<const std::byte *>(first), end - first};
  memory.open = [&context, first, end] { return open(context, first, end - first); };
  return memory;
}

Result<transport::DeviceMemory> memoryWrittenByNics(const cuda::Context &context, CUdeviceptr start, uint64_t bytes) {
  MAESTRO_TRY(checkExports(context));
  transport::DeviceMemory memory = memoryForNics(context, start, bytes);
  if (context.attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
      CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER)
    return memory;
  int options = context.attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
  if ((options & CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST) == 0)
    return Status::unavailable(context.name() + " does not order what NICs write, and its driver does not flush it "
                                                "(cuFlushGPUDirectRDMAWrites); a newer driver may");
  memory.flush = [&context] { return flush(context); };
  return memory;
}

} // namespace maestro::executor
