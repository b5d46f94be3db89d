// CUDA's vocabulary on the host: what a kernel's source sees instead of nvcc's built-ins. Threads of a block are fibers
// on one thread of the host; they switch at barriers and shuffles alone (scheduler.cpp).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>

#define __device__ inline
#define __forceinline__
#define __shared__ static thread_local
#define __constant__ static const

namespace maestro::kernels::cuda::host {

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};
struct alignas(16) Quad {
  unsigned x, y, z, w;
};

inline thread_local Dim3 threadIndex, blockIndex, blockSize, gridSize;

/// Waits until every thread of the block has come here.
void barrier(const std::source_location &site);
/// The bits that lane `source` of the warp gave to the same exchange; all lanes take part.
uint64_t exchange(uint64_t bits, unsigned source);
/// The block's dynamic shared memory.
std::byte *dynamicShared();

template <typename T> T shuffle(T value, unsigned source) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(bits, source);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

} // namespace maestro::kernels::cuda::host

#define threadIdx ::maestro::kernels::cuda::host::threadIndex
#define blockIdx ::maestro::kernels::cuda::host::blockIndex
#define blockDim ::maestro::kernels::cuda::host::blockSize
#define gridDim ::maestro::kernels::cuda::host::gridSize

using uint4 = ::maestro::kernels::cuda::host::Quad;

inline void __syncthreads(const std::source_location &site = std::source_location::current()) {
  ::maestro::kernels::cuda::host::barrier(site);
}
template <typename T> T __shfl_sync(unsigned, T value, int source) {
  return ::maestro::kernels::cuda::host::shuffle(value, static_cast<unsigned>(source));
}
template <typename T> T __shfl_xor_sync(unsigned, T value, int mask) {
  return ::maestro::kernels::cuda::host::shuffle(value, (threadIdx.x & 31u) ^ static_cast<unsigned>(mask));
}
/// Lanes below `delta` keep their own value.
template <typename T> T __shfl_up_sync(unsigned, T value, unsigned delta) {
  unsigned lane = threadIdx.x & 31u;
  return ::maestro::kernels::cuda::host::shuffle(value, lane < delta ? lane : lane - delta);
}

// Blocks run one after the other, so that these are plain.
inline unsigned atomicCAS(unsigned *address, unsigned compare, unsigned value) {
  unsigned old = *address;
  if (old == compare)
    *address = value;
  return old;
}
inline unsigned atomicExch(unsigned *address, unsigned value) {
  unsigned old = *address;
  *address = value;
  return old;
}
inline void __threadfence_system() {}
