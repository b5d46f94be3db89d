// Memory of a GPU that a rank needs beside the regions of its executables.
//
//   peak of a rank = Σ of its executables' regions × copies + the largest call's scratch, both rounded up to granules
//
// What a process takes before any rank has memory is kept off the GPU's (DeviceModel.kept).
#pragma once

#include "cost_models/cpu_memory.h"

#include <cstdint>

namespace maestro::cost_models {

/// Workspace of a product by cuBLASLt, at most (kernels/cuda/cublaslt.cpp).
inline constexpr uint64_t kProductWorkspaceBytes = uint64_t{32} << 20;
/// Regions and scratch memory are mapped in granules of 2 MiB (executor/device/cuda/arena.h): a rank's last ones may be
/// nearly empty.
inline constexpr uint64_t kGranuleBytes = 2 * (uint64_t{2} << 20);
/// Staging of sums of gradients: turns of which the bytes that an NVLink moves take several times what their launches,
/// waits and signals do (some 50 of them, a few microseconds each).
inline constexpr uint64_t kGpuSumStagingBytes = uint64_t{256} << 20;

/// Not under what the CUDA library's kernel asks for as scratch memory (held against the library by a test).
uint64_t gpuScratchBytes(const KernelCall &call);

} // namespace maestro::cost_models
