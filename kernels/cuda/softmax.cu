// Softmax and log-softmax, and their gradients from the result: rows along the last dim, lines one thread each along
// others.
#include "kernels/cuda/softmax.h"

#include "kernels/cuda/rows.h"

namespace maestro::kernels::cuda {
namespace {

/// `inverse`: 1 ÷ the sum.
__device__ float softmaxOf(float x, float largest, float inverse, float logSum, bool logarithm) {
  return logarithm ? x - largest - logSum : expf(x - largest) * inverse;
}
__device__ float gradOf(float y, float dy, float sum, bool logarithm) {
  return logarithm ? dy - expf(y) * sum : y * (dy - sum);
}

template <typename T, bool kWide> __device__ void softmaxRow(const SoftmaxParams &p) {
  using Group = RowGroup<kWide>;
  int64_t row = Group::row(), width = p.dims.axis;
  if (row >= p.dims.outer)
    return;
  const T *x = static_cast<const T *>(p.x) + row * width;
  T *y = static_cast<T *>(p.y) + row * width;
  float largest = -kInfinity, sum = 0;
  Group::forChunks(width, p.packed, [&](int64_t at, int64_t n, bool packed) {
    float value = largestOf(loadChunk(x + at, n, packed), n);
    largest = value > largest ? value : largest;
  });
  largest = Group::reduce(largest, Largest());
  Group::forChunks(width, p.packed, [&](int64_t at, int64_t n, bool packed) {
    Chunk chunk = loadChunk(x + at, n, packed);
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      sum += i < n ? expf(chunk.v[i] - largest) : 0;
  });
  sum = Group::sum(sum);
  float inverse = 1 / sum, logSum = logf(sum);
  Group::forChunks(width, p.packed, [&](int64_t at, int64_t n, bool packed) {
    Chunk chunk = loadChunk(x + at, n, packed);
#pragma unroll
    for (float &value : chunk.v)
      value = softmaxOf(value, largest, inverse, logSum, p.logarithm);
    storeChunk(y + at, chunk, n, packed);
  });
}

template <typename T, bool kWide> __device__ void softmaxGradRow(const SoftmaxParams &p) {
  using Group = RowGroup<kWide>;
  int64_t row = Group::row(), width = p.dims.axis;
  if (row >= p.dims.outer)
    return;
  const T *y = static_cast<const T *>(p.x) + row * width, *dy = static_cast<const T *>(p.dy) + row * width;
  T *dx = static_cast<T *>(p.y) + row * width;
  float sum = 0;
  Group::forChunks(width, p.packed, [&](int64_t at, int64_t n, bool packed) {
    Chunk result = loadChunk(y + at, n, packed), grad = loadChunk(dy + at, n, packed);
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      sum += grad.v[i] * (p.logarithm ? 1 : result.v[i]);
  });
  sum = Group::sum(sum);
  Group::forChunks(width, p.packed, [&](int64_t at, int64_t n, bool packed) {
    Chunk result = loadChunk(y + at, n, packed), grad = loadChunk(dy + at, n, packed);
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      grad.v[i] = gradOf(result.v[i], grad.v[i], sum, p.logarithm);
    storeChunk(dx + at, grad, n, packed);
  });
}

/// The first element of this thread's line, or −1.
__device__ int64_t lineStart(const AxisDims &dims) {
  int64_t line = threadOfGrid();
  return line < dims.outer * dims.inner ? line / dims.inner * dims.axis * dims.inner + line % dims.inner : -1;
}

template <typename T> __device__ void softmaxLine(const SoftmaxParams &p) {
  int64_t start = lineStart(p.dims);
  if (start < 0)
    return;
  const T *x = static_cast<const T *>(p.x) + start;
  T *y = static_cast<T *>(p.y) + start;
  float largest = -kInfinity, sum = 0;
  for (int64_t i = 0; i < p.dims.axis; ++i) {
    float value = toFloat(x[i * p.dims.inner]);
    largest = value > largest ? value : largest;
  }
  for (int64_t i = 0; i < p.dims.axis; ++i)
    sum += expf(toFloat(x[i * p.dims.inner]) - largest);
  float inverse = 1 / sum, logSum = logf(sum);
  for (int64_t i = 0; i < p.dims.axis; ++i)
    y[i * p.dims.inner] = fromFloat<T>(softmaxOf(toFloat(x[i * p.dims.inner]), largest, inverse, logSum, p.logarithm));
}

template <typename T> __device__ void softmaxGradLine(const SoftmaxParams &p) {
  int64_t start = lineStart(p.dims);
  if (start < 0)
    return;
  const T *y = static_cast<const T *>(p.x) + start, *dy = static_cast<const T *>(p.dy) + start;
  T *dx = static_cast<T *>(p.y) + start;
  float sum = 0;
  for (int64_t i = 0; i < p.dims.axis; ++i)
    sum += toFloat(dy[i * p.dims.inner]) * (p.logarithm ? 1 : toFloat(y[i * p.dims.inner]));
  for (int64_t i = 0; i < p.dims.axis; ++i)
    dx[i * p.dims.inner] =
        fromFloat<T>(gradOf(toFloat(y[i * p.dims.inner]), toFloat(dy[i * p.dims.inner]), sum, p.logarithm));
}

} // namespace

#define SOFTMAX(X, suffix, T)                                                                                          \
  X(softmax_##suffix, SoftmaxParams, (softmaxRow<T, false>))                                                           \
  X(softmax_wide_##suffix, SoftmaxParams, (softmaxRow<T, true>))                                                       \
  X(softmax_line_##suffix, SoftmaxParams, softmaxLine<T>)                                                              \
  X(softmax_grad_##suffix, SoftmaxParams, (softmaxGradRow<T, false>))                                                  \
  X(softmax_grad_wide_##suffix, SoftmaxParams, (softmaxGradRow<T, true>))                                              \
  X(softmax_grad_line_##suffix, SoftmaxParams, softmaxGradLine<T>)
#define KERNELS(X) SOFTMAX(X, f32, float) SOFTMAX(X, bf16, Bf16)

MAESTRO_KERNELS(softmax, KERNELS)
#undef KERNELS
#undef SOFTMAX

} // namespace maestro::kernels::cuda
