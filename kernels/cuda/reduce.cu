// Reductions over any axes, in two launches: chunks of a fixed size, then the chunks in order.
#include "kernels/cuda/reduce.h"

#include "kernels/cuda/rows.h"

namespace maestro::kernels::cuda {
namespace {

template <typename Op, typename C> struct Identity;
template <typename C> struct Identity<Sum, C> {
  __device__ static C value() { return C(0); }
};
template <typename C> struct Identity<Product, C> {
  __device__ static C value() { return C(1); }
};
template <typename C> struct Identity<Largest, C> {
  __device__ static C value() { return -static_cast<C>(kInfinity); }
};
template <typename C> struct Identity<Smallest, C> {
  __device__ static C value() { return static_cast<C>(kInfinity); }
};
template <> struct Identity<Largest, int64_t> {
  __device__ static int64_t value() { return INT64_MIN; }
};
template <> struct Identity<Smallest, int64_t> {
  __device__ static int64_t value() { return INT64_MAX; }
};

/// Integers wrap.
template <typename Op> struct Wrapping {
  template <typename C> __device__ C operator()(C a, C b) const { return Op()(a, b); }
};
template <> struct Wrapping<Sum> {
  __device__ int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
  template <typename C> __device__ C operator()(C a, C b) const { return a + b; }
};
template <> struct Wrapping<Product> {
  __device__ int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
  template <typename C> __device__ C operator()(C a, C b) const { return a * b; }
};

/// Element i of x as C; T is the type at compile time, void: at run time.
template <typename T, typename C> __device__ C element(const AnyTensor &x, int64_t i) {
  if constexpr (sizeof(T) == 1)
    return load<C>(x, i);
  else
    return toFloat(static_cast<const T *>(x.data)[i]);
}
using Unknown = uint8_t;

__device__ int64_t chunkEnd(const ReduceParams &p, int64_t chunk) {
  return (chunk + 1) * p.chunk < p.length ? (chunk + 1) * p.chunk : p.length;
}

/// A block a result and chunk: where what is reduced lies side by side.
template <typename Op, typename C, typename T = Unknown> __device__ void reduceRows(const ReduceParams &p) {
  int64_t chunk = blockIdx.y, end = chunkEnd(p, chunk), start = offsetOf(p.keptMap, blockIdx.x);
  C value = Identity<Op, C>::value();
  for (int64_t k = chunk * p.chunk + threadIdx.x; k < end; k += kBlock)
    value = Wrapping<Op>()(value, element<T, C>(p.x, start + offsetOf(p.reducedMap, k)));
  value = blockReduce(value, Wrapping<Op>());
  if (threadIdx.x == 0)
    static_cast<C *>(p.partial)[chunk * p.kept + blockIdx.x] = value;
}

/// A thread a result and chunk: where results lie side by side.
template <typename Op, typename C, typename T = Unknown> __device__ void reduceColumns(const ReduceParams &p) {
  int64_t result = threadOfGrid(), chunk = blockIdx.y;
  if (result >= p.kept)
    return;
  int64_t end = chunkEnd(p, chunk), start = offsetOf(p.keptMap, result);
  C value = Identity<Op, C>::value();
  for (int64_t k = chunk * p.chunk; k < end; ++k)
    value = Wrapping<Op>()(value, element<T, C>(p.x, start + offsetOf(p.reducedMap, k)));
  static_cast<C *>(p.partial)[chunk * p.kept + result] = value;
}

/// The sum over rows of a matrix: kMatrixColumns columns a block, eight a thread, and the block's warps share the rows.
template <typename T> __device__ void sumMatrix(const ReduceParams &p) {
  constexpr int kWarps = kBlock / kWarp;
  __shared__ float partial[kWarps][kMatrixColumns];
  int64_t first = int64_t(blockIdx.x) * kMatrixColumns, column = first + laneOf() * kChunk, chunk = blockIdx.y;
  int64_t end = chunkEnd(p, chunk), row = chunk * p.chunk + warpOf();
  Chunk sum = {};
  if (column < p.kept) {
    const T *x = static_cast<const T *>(p.x.data) + column;
    auto add = [&](const Chunk &values) {
#pragma unroll
      for (int i = 0; i < kChunk; ++i)
        sum.v[i] += values.v[i];
    };
    constexpr int kAtOnce = 4;
    for (; p.packed && row + (kAtOnce - 1) * kWarps < end; row += kAtOnce * kWarps) {
      Chunk values[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        values[k] = loadChunk(x + (row + k * kWarps) * p.kept, kChunk, true);
#pragma unroll
      for (const Chunk &each : values)
        add(each);
    }
    for (; row < end; row += kWarps)
      add(loadChunk(x + row * p.kept, p.kept - column, false));
  }
#pragma unroll
  for (int i = 0; i < kChunk; ++i)
    partial[warpOf()][laneOf() * kChunk + i] = sum.v[i];
  __syncthreads();
  column = first + threadIdx.x;
  if (column >= p.kept)
    return;
  float total = partial[0][threadIdx.x];
#pragma unroll
  for (int w = 1; w < kWarps; ++w)
    total += partial[w][threadIdx.x];
  static_cast<float *>(p.partial)[chunk * p.kept + column] = total;
}

template <typename Op, typename C> __device__ void reduceFinal(const ReduceFinalParams &p) {
  int64_t result = threadOfGrid();
  if (result >= p.kept)
    return;
  C value = Identity<Op, C>::value();
  for (int64_t chunk = 0; chunk < p.chunks; ++chunk)
    value = Wrapping<Op>()(value, static_cast<const C *>(p.partial)[chunk * p.kept + result]);
  if (p.mean && (p.length != 0 || C(0.5) != C(0))) // Of no integers: 0.
    value = static_cast<C>(value / static_cast<C>(p.length));
  if (p.adds)
    value = Wrapping<Sum>()(load<C>(p.y, result), value);
  store(p.y, result, value);
}

} // namespace

#define REDUCE(X, op, Op, type, C)                                                                                     \
  X(reduce_##op##_rows_##type, ReduceParams, (reduceRows<Op, C>))                                                      \
  X(reduce_##op##_columns_##type, ReduceParams, (reduceColumns<Op, C>))                                                \
  X(reduce_##op##_final_##type, ReduceFinalParams, (reduceFinal<Op, C>))
#define REDUCE_ALL(X, type, C)                                                                                         \
  REDUCE(X, sum, Sum, type, C)                                                                                         \
  REDUCE(X, max, Largest, type, C)                                                                                     \
  REDUCE(X, min, Smallest, type, C)                                                                                    \
  REDUCE(X, prod, Product, type, C)
#define KERNELS(X)                                                                                                     \
  REDUCE_ALL(X, any, float)                                                                                            \
  REDUCE_ALL(X, f64, double)                                                                                           \
  REDUCE_ALL(X, integer, int64_t)                                                                                      \
  X(reduce_sum_rows_f32, ReduceParams, (reduceRows<Sum, float, float>))                                                \
  X(reduce_sum_rows_bf16, ReduceParams, (reduceRows<Sum, float, Bf16>))                                                \
  X(reduce_sum_matrix_f32, ReduceParams, sumMatrix<float>)                                                             \
  X(reduce_sum_matrix_bf16, ReduceParams, sumMatrix<Bf16>)                                                             \
  X(reduce_sum_columns_f32, ReduceParams, (reduceColumns<Sum, float, float>))                                          \
  X(reduce_sum_columns_bf16, ReduceParams, (reduceColumns<Sum, float, Bf16>))

MAESTRO_KERNELS(reduce, KERNELS)
#undef KERNELS
#undef REDUCE_ALL
#undef REDUCE

} // namespace maestro::kernels::cuda
