// How a kernel is declared. Each has one parameter, a struct by value, and one name, under which nvcc's fatbin and the
// host's table both know it. A family lists its kernels once:
//
//     #define KERNELS(X) X(copy_bytes, CopyParams, copyBytes) X(fill_f32, FillParams, fill<float>)
//     MAESTRO_KERNELS(movement, KERNELS)
//     #undef KERNELS
//
// where `copyBytes(const CopyParams &)` is what one thread does.
#pragma once

namespace maestro::kernels::cuda {

/// Threads of every block.
inline constexpr int kBlock = 256;

} // namespace maestro::kernels::cuda

#ifdef __CUDACC__

#define MAESTRO_KERNEL(name, Params, ...)                                                                              \
  extern "C" __global__ void __launch_bounds__(::maestro::kernels::cuda::kBlock, 1)                                    \
      name(const __grid_constant__ Params params) {                                                                    \
    __VA_ARGS__(params);                                                                                               \
  }
#define MAESTRO_KERNELS(family, LIST) LIST(MAESTRO_KERNEL)

#else

#include "kernels/cuda/host/grid.h"

#define MAESTRO_KERNEL(name, Params, ...)                                                                              \
  {#name, sizeof(Params), [](const void *params) { __VA_ARGS__(*static_cast<const Params *>(params)); }},
#define MAESTRO_KERNELS(family, LIST)                                                                                  \
  std::span<const host::KernelEntry> family##Kernels() {                                                               \
    static constexpr host::KernelEntry kEntries[] = {LIST(MAESTRO_KERNEL)};                                            \
    return kEntries;                                                                                                   \
  }

#endif

/// In a family's list: a kernel for elements of each size, whatever they mean.
#define MAESTRO_BY_SIZE(X, stem, Params, body)                                                                         \
  X(stem##_1, Params, body<uint8_t>)                                                                                   \
  X(stem##_2, Params, body<uint16_t>)                                                                                  \
  X(stem##_4, Params, body<uint32_t>)                                                                                  \
  X(stem##_8, Params, body<uint64_t>)
