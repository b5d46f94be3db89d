// Rows of elements, each the work of a warp or of a block, eight elements at a time.
#pragma once

#include "kernels/cuda/block.h"

namespace maestro::kernels::cuda {

inline constexpr int kChunk = 8;

/// Elements of a row as f32.
struct Chunk {
  float v[kChunk];
};

/// Elements [0, min(n, 8)) from `from`, zeros behind. `packed`: `from` is 16-byte aligned and n ≥ 8.
template <typename T> __device__ __forceinline__ Chunk loadChunk(const T *from, int64_t n, bool packed) {
  Chunk chunk;
  if (packed) {
    constexpr int kCount = Pack<T>::kCount;
#pragma unroll
    for (int k = 0; k < kChunk / kCount; ++k) {
      Pack<T> pack = loadPack(from + k * kCount);
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        chunk.v[k * kCount + i] = toFloat(pack.items[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      chunk.v[i] = i < n ? toFloat(from[i]) : 0;
  }
  return chunk;
}

template <typename T> __device__ __forceinline__ void storeChunk(T *to, const Chunk &chunk, int64_t n, bool packed) {
  if (packed) {
    constexpr int kCount = Pack<T>::kCount;
#pragma unroll
    for (int k = 0; k < kChunk / kCount; ++k) {
      Pack<T> pack;
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        pack.items[i] = fromFloat<T>(chunk.v[k * kCount + i]);
      storePack(to + k * kCount, pack);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      if (i < n)
        to[i] = fromFloat<T>(chunk.v[i]);
  }
}

/// Who works on a row: a block, or one of its warps.
template <bool kWide> struct RowGroup {
  static constexpr int kThreads = kWide ? kBlock : kWarp;

  __device__ static int64_t row() {
    return kWide ? int64_t(blockIdx.x) : int64_t(blockIdx.x) * (kBlock / kWarp) + warpOf();
  }
  __device__ static int thread() { return kWide ? threadIdx.x : laneOf(); }
  template <typename Op> __device__ static float reduce(float value, Op op) {
    if constexpr (kWide)
      return blockReduce(value, op);
    else
      return warpReduce(value, op);
  }
  __device__ static float sum(float value) { return reduce(value, Sum()); }

  /// Calls visit(first element, elements left, packed) for this thread's chunks of a row. Where all are packed, the two
  /// last arguments are constants: loads of neighbouring rounds are under way together.
  template <typename Visit> __device__ static void forChunks(int64_t width, bool packed, Visit visit) {
    constexpr int64_t kStep = int64_t(kThreads) * kChunk;
    if (packed) {
#pragma unroll 2
      for (int64_t at = int64_t(thread()) * kChunk; at < width; at += kStep)
        visit(at, int64_t(kChunk), true);
    } else {
      for (int64_t at = int64_t(thread()) * kChunk; at < width; at += kStep)
        visit(at, width - at, false);
    }
  }

  /// Calls use(first element, elements left, packed, load(the same)) for them. Results may lie over what is read, which
  /// keeps the compiler from loading ahead: where all are packed, kAtOnce chunks are loaded before the first is used.
  template <int kAtOnce, typename Load, typename Use>
  __device__ static void mapChunks(int64_t width, bool packed, Load load, Use use) {
    constexpr int64_t kStep = int64_t(kThreads) * kChunk;
    int64_t first = int64_t(thread()) * kChunk;
    if (packed) {
      for (int64_t at = first; at < width; at += kAtOnce * kStep) {
        decltype(load(at, int64_t(kChunk), true)) loaded[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k)
          loaded[k] = load(at + k * kStep < width ? at + k * kStep : at, int64_t(kChunk), true);
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k)
          if (at + k * kStep < width)
            use(at + k * kStep, int64_t(kChunk), true, loaded[k]);
      }
    } else {
      for (int64_t at = first; at < width; at += kStep) {
        auto loaded = load(at, width - at, false);
        use(at, width - at, false, loaded);
      }
    }
  }
};

/// ln Σ eˣ built up value by value: the largest so far, and the sum relative to it.
struct RunningLse {
  float largest = -kInfinity, sum = 0;

  /// Moves to a new largest; returns the factor on what was summed relative to the old one.
  __device__ float raise(float value) {
    if (!(value > largest))
      return 1;
    float factor = expf(largest - value);
    largest = value;
    sum *= factor;
    return factor;
  }
};

/// Of the first min(n, 8) elements.
__device__ __forceinline__ float largestOf(const Chunk &chunk, int64_t n) {
  float value = -kInfinity;
#pragma unroll
  for (int i = 0; i < kChunk; ++i)
    value = i < n && chunk.v[i] > value ? chunk.v[i] : value;
  return value;
}

} // namespace maestro::kernels::cuda
