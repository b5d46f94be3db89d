// The device of an NVIDIA GPU: see README.md.
#pragma once

#include "executor/device/device.h"

namespace maestro::executor {

struct CudaDeviceOptions : DeviceOptions {
  int ordinal = 0; ///< Which of this machine's GPUs.
  /// Memory in which ranks meet: all words, and all that is adopted, lie there.
  std::span<std::byte> shared;
  bool runsKernels = true; ///< Else programs do nothing: spans say how long they take.
};

/// Unavailable where the driver, the GPU or the kernels, which lie beside the program, are missing. The process may not
/// fork afterwards.
Result<std::unique_ptr<Device>> createCudaDevice(const CudaDeviceOptions &options);

} // namespace maestro::executor
