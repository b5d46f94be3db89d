// What the threads of a warp or a block compute together, always in the same order. Every thread of the block calls
// these.
#pragma once

#include "kernels/cuda/device.h"
#include "kernels/cuda/kernel.h"

namespace maestro::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ int laneOf() { return threadIdx.x & (kWarp - 1); }
__device__ __forceinline__ int warpOf() { return threadIdx.x / kWarp; }

struct Sum {
  template <typename C> __device__ C operator()(C a, C b) const { return a + b; }
};
struct Largest {
  template <typename C> __device__ C operator()(C a, C b) const { return a != a || a > b ? a : b; }
};
struct Smallest {
  template <typename C> __device__ C operator()(C a, C b) const { return a != a || a < b ? a : b; }
};
struct Product {
  template <typename C> __device__ C operator()(C a, C b) const { return a * b; }
};

/// `op` is commutative and associative but for rounding; all lanes have the result.
template <typename Op, typename C> __device__ __forceinline__ C warpReduce(C value, Op op) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = op(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

/// Over the block's values; all threads have the result.
template <typename Op, typename C> __device__ __forceinline__ C blockReduce(C value, Op op) {
  __shared__ C partial[kBlock / kWarp];
  value = warpReduce(value, op);
  if (laneOf() == 0)
    partial[warpOf()] = value;
  __syncthreads();
  C total = partial[0];
#pragma unroll
  for (int w = 1; w < kBlock / kWarp; ++w)
    total = op(total, partial[w]);
  __syncthreads(); // The next call writes `partial`.
  return total;
}
__device__ __forceinline__ float blockSum(float value) { return blockReduce(value, Sum()); }
__device__ __forceinline__ float blockMax(float value) { return blockReduce(value, Largest()); }

/// The sum of the values of the threads before this one; `total` becomes the sum of all.
template <typename C> __device__ __forceinline__ C blockExclusiveSum(C value, C &total) {
  __shared__ C partial[kBlock / kWarp];
  C running = value;
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    C before = __shfl_up_sync(kAllLanes, running, distance);
    if (laneOf() >= distance)
      running += before;
  }
  if (laneOf() == kWarp - 1)
    partial[warpOf()] = running;
  __syncthreads();
  C start = C(0), sum = C(0);
#pragma unroll
  for (int w = 0; w < kBlock / kWarp; ++w) {
    if (w == warpOf())
      start = sum;
    sum += partial[w];
  }
  __syncthreads();
  total = sum;
  return start + running - value;
}

} // namespace maestro::kernels::cuda
