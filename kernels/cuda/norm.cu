// Layer and RMS normalisation. A row is a warp's or a block's work; gradients of scale and bias are summed over chunks
// of rows, then over the chunks.
#include "kernels/cuda/norm.h"

#include "kernels/cuda/rows.h"

namespace maestro::kernels::cuda {
namespace {

/// Elements of scale or bias, which rows share; `otherwise` where it is absent.
__device__ __forceinline__ Chunk weights(const void *from, bool narrow, int64_t at, int64_t n, bool packed,
                                         float otherwise) {
  if (from && narrow)
    return loadChunk(static_cast<const Bf16 *>(from) + at, n, packed);
  if (from)
    return loadChunk(static_cast<const float *>(from) + at, n, packed);
  Chunk chunk;
#pragma unroll
  for (float &value : chunk.v)
    value = otherwise;
  return chunk;
}

template <typename T, typename Y, bool kCentred, bool kWide> __device__ void norm(const NormParams &p) {
  using Group = RowGroup<kWide>;
  int64_t row = Group::row();
  if (row >= p.rows)
    return;
  const T *x = static_cast<const T *>(p.x) + row * p.width;
  Y *y = static_cast<Y *>(p.y) + row * p.width;
  float mean = 0;
  if constexpr (kCentred) {
    float sum = 0;
    Group::forChunks(p.width, p.packed, [&](int64_t at, int64_t n, bool packed) {
      Chunk chunk = loadChunk(x + at, n, packed);
#pragma unroll
      for (float value : chunk.v)
        sum += value;
    });
    mean = Group::sum(sum) / static_cast<float>(p.width);
  }
  float squares = 0;
  Group::forChunks(p.width, p.packed, [&](int64_t at, int64_t n, bool packed) {
    Chunk chunk = loadChunk(x + at, n, packed);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      float centred = i < n ? chunk.v[i] - mean : 0;
      squares += centred * centred;
    }
  });
  float rstd = 1 / sqrtf(Group::sum(squares) / static_cast<float>(p.width) + p.epsilon);
  Group::forChunks(p.width, p.packed, [&](int64_t at, int64_t n, bool packed) {
    Chunk chunk = loadChunk(x + at, n, packed), scale = weights(p.scale, p.narrowWeights, at, n, packed, 1);
    Chunk bias = weights(p.bias, p.narrowWeights, at, n, packed, 0);
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      chunk.v[i] = (chunk.v[i] - mean) * rstd * scale.v[i] + bias.v[i];
    storeChunk(y + at, chunk, n, packed);
  });
  if (Group::thread() == 0) {
    if constexpr (kCentred)
      p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
}

template <typename T, typename Y, bool kCentred, bool kWide> __device__ void normGrad(const NormGradParams &p) {
  using Group = RowGroup<kWide>;
  int64_t row = Group::row();
  if (row >= p.rows)
    return;
  const T *x = static_cast<const T *>(p.x) + row * p.width;
  const Y *dy = static_cast<const Y *>(p.dy) + row * p.width;
  T *dx = static_cast<T *>(p.dx) + row * p.width;
  float mean = kCentred ? p.mean[row] : 0, rstd = p.rstd[row], sum = 0, dot = 0;
  Group::forChunks(p.width, p.packed, [&](int64_t at, int64_t n, bool packed) {
    Chunk grad = loadChunk(dy + at, n, packed), value = loadChunk(x + at, n, packed);
    Chunk scale = weights(p.scale, p.narrowWeights, at, n, packed, 1);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      float g = grad.v[i] * scale.v[i]; // 0 behind the row's end.
      sum += g;
      dot += g * (value.v[i] - mean) * rstd;
    }
  });
  float width = static_cast<float>(p.width);
  float meanDot = Group::sum(dot) / width, meanSum = 0;
  if constexpr (kCentred)
    meanSum = Group::sum(sum) / width;
  Group::forChunks(p.width, p.packed, [&](int64_t at, int64_t n, bool packed) {
    Chunk grad = loadChunk(dy + at, n, packed), value = loadChunk(x + at, n, packed);
    Chunk scale = weights(p.scale, p.narrowWeights, at, n, packed, 1);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      float normalised = (value.v[i] - mean) * rstd;
      grad.v[i] = rstd * (grad.v[i] * scale.v[i] - meanSum - normalised * meanDot);
    }
    storeChunk(dx + at, grad, n, packed);
  });
}

/// The same for rows that fit in registers, so that each is read once: a block, or a warp, goes through `perGroup` rows
/// one after the other and adds up what they give scale and bias. kChunks: of a thread.
template <typename T, typename Y, bool kCentred, bool kWide, int kChunks, bool kPacked>
__device__ __forceinline__ void normGradGroup(const NormGradParams &p) {
  using Group = RowGroup<kWide>;
  constexpr int64_t kStep = int64_t(Group::kThreads) * kChunk;
  int64_t group = Group::row(), first = group * p.perGroup;
  int64_t end = first + p.perGroup < p.rows ? first + p.perGroup : p.rows, start = int64_t(Group::thread()) * kChunk;
  if (first >= end)
    return;
  Chunk dscale[kChunks] = {}, dbias[kCentred ? kChunks : 1] = {};
  for (int64_t row = first; row < end; ++row) {
    const T *x = static_cast<const T *>(p.x) + row * p.width;
    const Y *dy = static_cast<const Y *>(p.dy) + row * p.width;
    T *dx = static_cast<T *>(p.dx) + row * p.width;
    Chunk grad[kChunks], value[kChunks];
    float mean = kCentred ? p.mean[row] : 0, rstd = p.rstd[row], sum = 0, dot = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      int64_t at = start + c * kStep,
              from = kPacked && at >= p.width ? 0 : at; // No branch: all are under way together.
      grad[c] = loadChunk(dy + from, p.width - at, kPacked);
      value[c] = loadChunk(x + from, p.width - at, kPacked);
    }
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      int64_t at = start + c * kStep;
      Chunk scale = weights(at < p.width ? p.scale : nullptr, p.narrowWeights, at, p.width - at, kPacked, 1);
#pragma unroll
      for (int i = 0; i < kChunk; ++i) {
        grad[c].v[i] = kPacked && at >= p.width ? 0 : grad[c].v[i]; // As loads leave it otherwise.
        float normalised = (value[c].v[i] - mean) * rstd, g = grad[c].v[i] * scale.v[i];
        dscale[c].v[i] += grad[c].v[i] * normalised;
        if constexpr (kCentred)
          dbias[c].v[i] += grad[c].v[i];
        value[c].v[i] = normalised;
        grad[c].v[i] = g;
        sum += g;
        dot += g * normalised;
      }
    }
    float width = static_cast<float>(p.width), meanDot = Group::sum(dot) / width, meanSum = 0;
    if constexpr (kCentred)
      meanSum = Group::sum(sum) / width;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      int64_t at = start + c * kStep;
#pragma unroll
      for (int i = 0; i < kChunk; ++i)
        grad[c].v[i] = rstd * (grad[c].v[i] - meanSum - value[c].v[i] * meanDot);
      if (at < p.width)
        storeChunk(dx + at, grad[c], p.width - at, kPacked);
    }
  }
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    int64_t at = start + c * kStep, to = group * p.width + at;
    if (at >= p.width)
      break;
    if (p.dscale)
      storeChunk(p.dscale + to, dscale[c], p.width - at, kPacked);
    if constexpr (kCentred)
      if (p.dbias)
        storeChunk(p.dbias + to, dbias[c], p.width - at, kPacked);
  }
}

template <typename T, typename Y, bool kCentred, bool kWide, int kChunks>
__device__ void normGradSums(const NormGradParams &p) {
  if (p.packed)
    normGradGroup<T, Y, kCentred, kWide, kChunks, true>(p);
  else
    normGradGroup<T, Y, kCentred, kWide, kChunks, false>(p);
}

template <typename T, typename Y> __device__ void normSums(const NormSumsParams &p) {
  int64_t column = threadOfGrid(), chunk = blockIdx.y;
  if (column >= p.width)
    return;
  const T *x = static_cast<const T *>(p.x);
  const Y *dy = static_cast<const Y *>(p.dy);
  int64_t end = (chunk + 1) * p.chunkRows < p.rows ? (chunk + 1) * p.chunkRows : p.rows;
  float dscale = 0, dbias = 0;
  for (int64_t row = chunk * p.chunkRows; row < end; ++row) {
    float grad = toFloat(dy[row * p.width + column]);
    dbias += grad;
    if (p.dscale)
      dscale += grad * (toFloat(x[row * p.width + column]) - (p.mean ? p.mean[row] : 0)) * p.rstd[row];
  }
  if (p.dscale)
    p.dscale[chunk * p.width + column] = dscale;
  if (p.dbias)
    p.dbias[chunk * p.width + column] = dbias;
}

/// A block has kSumColumns columns side by side, a sector of memory; its threads share the chunks, and the first of
/// each column adds up what they found.
__device__ void columnSum(const ColumnSumParams &p) {
  constexpr int kShares = kBlock / kSumColumns;
  __shared__ float partial[kShares][kSumColumns];
  int own = threadIdx.x % kSumColumns, share = threadIdx.x / kSumColumns;
  int64_t column = int64_t(blockIdx.x) * kSumColumns + own;
  float sum = 0;
  if (column < p.width)
#pragma unroll 8
    for (int64_t chunk = share; chunk < p.chunks; chunk += kShares)
      sum += p.partial[chunk * p.width + column];
  partial[share][own] = sum;
  __syncthreads();
  if (share != 0 || column >= p.width)
    return;
  for (int other = 1; other < kShares; ++other)
    sum += partial[other][own];
  p.result[column] = p.adds ? p.result[column] + sum : sum;
}

} // namespace

#define NORMS_OF(X, kind, suffix, T, Y, centred)                                                                       \
  X(kind##_norm_##suffix, NormParams, (norm<T, Y, centred, false>))                                                    \
  X(kind##_norm_wide_##suffix, NormParams, (norm<T, Y, centred, true>))                                                \
  X(kind##_norm_grad_##suffix, NormGradParams, (normGrad<T, Y, centred, false>))                                       \
  X(kind##_norm_grad_wide_##suffix, NormGradParams, (normGrad<T, Y, centred, true>))                                   \
  X(kind##_norm_grad_sums_4_##suffix, NormGradParams, (normGradSums<T, Y, centred, false, 4>))                         \
  X(kind##_norm_grad_sums_wide_2_##suffix, NormGradParams, (normGradSums<T, Y, centred, true, 2>))                     \
  X(kind##_norm_grad_sums_wide_4_##suffix, NormGradParams, (normGradSums<T, Y, centred, true, 4>))
#define NORMS(X, suffix, T, Y)                                                                                         \
  NORMS_OF(X, layer, suffix, T, Y, true)                                                                               \
  NORMS_OF(X, rms, suffix, T, Y, false)
#define KERNELS(X)                                                                                                     \
  NORMS(X, f32_f32, float, float)                                                                                      \
  NORMS(X, f32_bf16, float, Bf16)                                                                                      \
  NORMS(X, bf16_bf16, Bf16, Bf16)                                                                                      \
  X(norm_sums_f32_f32, NormSumsParams, (normSums<float, float>))                                                       \
  X(norm_sums_f32_bf16, NormSumsParams, (normSums<float, Bf16>))                                                       \
  X(norm_sums_bf16_bf16, NormSumsParams, (normSums<Bf16, Bf16>))                                                       \
  X(column_sum, ColumnSumParams, columnSum)

MAESTRO_KERNELS(norm, KERNELS)
#undef KERNELS
#undef NORMS
#undef NORMS_OF

} // namespace maestro::kernels::cuda
