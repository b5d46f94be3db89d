// What streams do by kernels of ours where the driver has nothing that waits for nobody.
#pragma once

#include "executor/device/box.h"
#include "executor/device/device.h"
#include "kernels/cuda/library.h"
#include "kernels/cuda/queue.h"

namespace maestro::executor {

class QueueKernels {
public:
  static Result<QueueKernels> find(const kernels::cuda::Functions &functions);

  Status put(CUstream stream, CUdeviceptr to, std::span<const std::byte> bytes) const;
  Status fillZero(CUstream stream, CUdeviceptr to, uint64_t bytes) const;
  Status copy(CUstream stream, CUdeviceptr to, CUdeviceptr from, const Box &box) const;
  static constexpr size_t kMaxSumParts = kernels::cuda::SumPartsParams::kMaxParts;
  /// Of at most so many parts.
  Status sum(CUstream stream, CUdeviceptr to, std::span<const CUdeviceptr> parts, uint64_t floats) const;

private:
  explicit QueueKernels(const kernels::cuda::Functions &functions) : functions(&functions) {}
  Status launch(CUfunction function, uint64_t threads, CUstream stream, void *params) const;

  const kernels::cuda::Functions *functions;
  CUfunction putBytes = nullptr, fillZeros = nullptr, copyBox = nullptr, sumParts = nullptr;
};

} // namespace maestro::executor
