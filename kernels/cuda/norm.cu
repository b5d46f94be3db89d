// Layer and RMS normalisation. A row is a warp's or a block's work; gradients of scale and bias are summed over chunks
// of rows, then over the chunks.
#include "kernels/cuda/norm.h"

#include "kernels/cuda/rows.h"

namespace maestro::kernels::cuda {
namespace {

template <typename W> __device__ Chunk weights(const void *from, int64_t at, int64_t n, bool packed, float otherwise) {
  if (from)
    return loadChunk(static_cast<const W *>(from) + at, n, packed);
  Chunk chunk;
#pragma unroll
  for (float &value : chunk.v)
    value = otherwise;
  return chunk;
}

template <typename T, typename W, bool kCentred, bool kWide> __device__ void norm(const NormParams &p) {
  using Group = RowGroup<kWide>;
  int64_t row = Group::row();
  if (row >= p.rows)
    return;
  const T *x = static_cast<const T *>(p.x) + row * p.width;
  T *y = static_cast<T *>(p.y) + row * p.width;
  float mean = 0;
  if constexpr (kCentred) {
    float sum = 0;
    Group::forChunks(p.width, [&](int64_t at, int64_t n) {
      Chunk chunk = loadChunk(x + at, n, p.packed);
#pragma unroll
      for (float value : chunk.v)
        sum += value;
    });
    mean = Group::sum(sum) / static_cast<float>(p.width);
  }
  float squares = 0;
  Group::forChunks(p.width, [&](int64_t at, int64_t n) {
    Chunk chunk = loadChunk(x + at, n, p.packed);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      float centred = i < n ? chunk.v[i] - mean : 0;
      squares += centred * centred;
    }
  });
  float rstd = 1 / sqrtf(Group::sum(squares) / static_cast<float>(p.width) + p.epsilon);
  Group::forChunks(p.width, [&](int64_t at, int64_t n) {
    Chunk chunk = loadChunk(x + at, n, p.packed), scale = weights<W>(p.scale, at, n, p.packed, 1);
    Chunk bias = weights<W>(p.bias, at, n, p.packed, 0);
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      chunk.v[i] = (chunk.v[i] - mean) * rstd * scale.v[i] + bias.v[i];
    storeChunk(y + at, chunk, n, p.packed);
  });
  if (Group::thread() == 0) {
    if constexpr (kCentred)
      p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
}

template <typename T, typename W, bool kCentred, bool kWide> __device__ void normGrad(const NormGradParams &p) {
  using Group = RowGroup<kWide>;
  int64_t row = Group::row();
  if (row >= p.rows)
    return;
  const T *x = static_cast<const T *>(p.x) + row * p.width, *dy = static_cast<const T *>(p.dy) + row * p.width;
  T *dx = static_cast<T *>(p.dx) + row * p.width;
  float mean = kCentred ? p.mean[row] : 0, rstd = p.rstd[row], sum = 0, dot = 0;
  Group::forChunks(p.width, [&](int64_t at, int64_t n) {
    Chunk grad = loadChunk(dy + at, n, p.packed), value = loadChunk(x + at, n, p.packed);
    Chunk scale = weights<W>(p.scale, at, n, p.packed, 1);
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
  Group::forChunks(p.width, [&](int64_t at, int64_t n) {
    Chunk grad = loadChunk(dy + at, n, p.packed), value = loadChunk(x + at, n, p.packed);
    Chunk scale = weights<W>(p.scale, at, n, p.packed, 1);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      float normalised = (value.v[i] - mean) * rstd;
      grad.v[i] = rstd * (grad.v[i] * scale.v[i] - meanSum - normalised * meanDot);
    }
    storeChunk(dx + at, grad, n, p.packed);
  });
}

template <typename T> __device__ void normSums(const NormSumsParams &p) {
  int64_t column = threadOfGrid(), chunk = blockIdx.y;
  if (column >= p.width)
    return;
  const T *x = static_cast<const T *>(p.x), *dy = static_cast<const T *>(p.dy);
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

__device__ void columnSum(const ColumnSumParams &p) {
  int64_t column = threadOfGrid();
  if (column >= p.width)
    return;
  float sum = 0;
  for (int64_t chunk = 0; chunk < p.chunks; ++chunk)
    sum += p.partial[chunk * p.width + column];
  p.result[column] = p.adds ? p.result[column] + sum : sum;
}

} // namespace

#define NORMS(X, suffix, T, W)                                                                                         \
  X(layer_norm_##suffix, NormParams, (norm<T, W, true, false>))                                                        \
  X(layer_norm_wide_##suffix, NormParams, (norm<T, W, true, true>))                                                    \
  X(rms_norm_##suffix, NormParams, (norm<T, W, false, false>))                                                         \
  X(rms_norm_wide_##suffix, NormParams, (norm<T, W, false, true>))                                                     \
  X(layer_norm_grad_##suffix, NormGradParams, (normGrad<T, W, true, false>))                                           \
  X(layer_norm_grad_wide_##suffix, NormGradParams, (normGrad<T, W, true, true>))                                       \
  X(rms_norm_grad_##suffix, NormGradParams, (normGrad<T, W, false, false>))                                            \
  X(rms_norm_grad_wide_##suffix, NormGradParams, (normGrad<T, W, false, true>))
#define KERNELS(X)                                                                                                     \
  NORMS(X, f32_f32, float, float)                                                                                      \
  NORMS(X, f32_bf16, float, Bf16)                                                                                      \
  NORMS(X, bf16_f32, Bf16, float)                                                                                      \
  NORMS(X, bf16_bf16, Bf16, Bf16)                                                                                      \
  X(norm_sums_f32, NormSumsParams, normSums<float>)                                                                    \
  X(norm_sums_bf16, NormSumsParams, normSums<Bf16>)                                                                    \
  X(column_sum, ColumnSumParams, columnSum)

MAESTRO_KERNELS(norm, KERNELS)
#undef KERNELS
#undef NORMS

} // namespace maestro::kernels::cuda
