#include "executor/device/cuda/cuda_segment.h"

#include "cuda/shared_block.h"
#include "executor/device/cuda/rdma_memory.h"

#include <utility>

namespace maestro::executor {
namespace {

/// The GPUs of a machine repeat where a plan has more devices.
Result<int> ordinalOf(uint32_t device) {
  MAESTRO_ASSIGN(int count, cuda::Context::count());
  return static_cast<int>(device) % count;
}

Result<std::unique_ptr<cuda::Context>> openContext(uint32_t device) {
  MAESTRO_ASSIGN(int ordinal, ordinalOf(device));
  return cuda::Context::open(ordinal);
}

class CudaSegment : public DeviceSegment {
public:
  CudaSegment(std::unique_ptr<cuda::Context> opened, std::unique_ptr<cuda::SharedBlock> made)
      : context(std::move(opened)), block(std::move(made)) {}

  std::byte *address() const override { return reinterpret_cast<std::byte *>(block->start()); }
  Result<int> descriptor() override { return block->descriptor(); }
  Status allow(uint32_t device) override {
    MAESTRO_ASSIGN(int ordinal, ordinalOf(device));
    return block->allow(ordinal);
  }
  Result<transport::DeviceMemory> forNics() override {
    return memoryWrittenByNics(*context, block->start(), block->bytes());
  }

private:
  std::unique_ptr<cuda::Context> context;
  std::unique_ptr<cuda::SharedBlock> block;
};

} // namespace

Result<std::unique_ptr<DeviceSegment>> createCudaSegment(uint32_t device, uint64_t bytes) {
  MAESTRO_ASSIGN(auto context, openContext(device));
  MAESTRO_ASSIGN(auto block, cuda::SharedBlock::create(*context, bytes, "what other ranks write there"));
  return std::unique_ptr<DeviceSegment>(std::make_unique<CudaSegment>(std::move(context), std::move(block)));
}

Result<std::unique_ptr<DeviceSegment>> openCudaSegment(uint32_t device, int descriptor, uint64_t bytes) {
  MAESTRO_ASSIGN(auto context, openContext(device));
  MAESTRO_ASSIGN(auto block, cuda::SharedBlock::import(*context, descriptor, bytes));
  return std::unique_ptr<DeviceSegment>(std::make_unique<CudaSegment>(std::move(context), std::move(block)));
}

} // namespace maestro::executor
