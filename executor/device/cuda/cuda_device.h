// The device of an NVIDIA GPU: see README.md.
#pragma once

#include "executor/device/device.h"

namespace maestro::executor {

struct CudaDeviceOptions : DeviceOptions {
  uint32_t device = 0;      ///< Its number in the plan: one of this machine's GPUs, which repeat.
  std::string model;        ///< What the GPU's name has to contain.
  uint64_t neededBytes = 0; ///< That are to be free.
  /// The host's memory in which ranks meet: all words lie in `shared`, and all that is adopted and is not on devices
  /// there or in `bulk`, of which each is registered when it is first adopted.
  std::vector<std::span<std::byte>> shared, bulk;
  bool runsKernels = true; ///< Else programs do nothing: spans say how long they take.
};

/// Unavailable where the driver, the GPU, its memory or the kernels, which lie beside the program, are missing;
/// InvalidInput where the GPU is another. The process may not fork afterwards.
Result<std::unique_ptr<Device>> createCudaDevice(const CudaDeviceOptions &options);

} // namespace maestro::executor
