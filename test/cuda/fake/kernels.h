// Kernels that the fake driver finds by name: those of kernels/cuda, and those that a test adds.
#pragma once

#include "kernels/cuda/host/grid.h"

#define MAESTRO_FAKE_CUDA_ADD_KERNEL "maestroFakeCudaAddKernel"
/// host::threadInGrid() of the grids that the driver runs: kernels in other libraries have a copy that knows nothing of
/// them.
#define MAESTRO_FAKE_CUDA_THREAD_IN_GRID "maestroFakeCudaThreadInGrid"

extern "C" {
/// The library's symbol of that name, for dlsym. The entry outlives the process's use of the driver.
using MaestroFakeCudaAddKernel = void (*)(const maestro::kernels::cuda::host::KernelEntry *entry);
using MaestroFakeCudaThreadInGrid = uint64_t (*)();
}
