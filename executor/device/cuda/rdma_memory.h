// Memory of a GPU that NICs read and write by themselves (GPUDirect RDMA, by dma-buf), and what a count means for it.
//
// A NIC's write and the completion behind it go two ways, to the GPU and to the host. A GPU that orders remote writes
// (CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING: Hopper and newer) lets kernels that a completion sets going see
// what was written before it; for others the host flushes between the completion and the count.
#pragma once

#include "cuda/context.h"
#include "transport/fabric.h"

namespace maestro::executor {

/// The pages that hold these bytes, all mapped, for NICs to read. The context must outlive what is made of it.
transport::DeviceMemory memoryForNics(const cuda::Context &context, CUdeviceptr start, uint64_t bytes);
/// The same, for NICs to write. Unavailable where the driver exports no dma-bufs, or the GPU neither orders what is
/// written nor is flushed.
Result<transport::DeviceMemory> memoryWrittenByNics(const cuda::Context &context, CUdeviceptr start, uint64_t bytes);

} // namespace maestro::executor
