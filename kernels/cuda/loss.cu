// Cross entropy and Kullback-Leibler divergence: one pass over a row's logits forward, one back.
#include "kernels/cuda/loss.h"

#include "kernels/cuda/rows.h"

namespace maestro::kernels::cuda {
namespace {

/// ln Σ eˣ of the row from what each thread has.
template <typename Group> __device__ float rowLse(const RunningLse &own, float &largest, float &sum) {
  largest = Group::reduce(own.largest, Largest());
  sum = Group::sum(own.largest == -kInfinity ? 0 : own.sum * expf(own.largest - largest));
  return largest + logf(sum);
}

/// The row's label; false, and a failure, where there is no such class.
__device__ bool labelOf(const AnyTensor &labels, int64_t row, int64_t width, int64_t ignored, const Report &report,
                        bool reports, int64_t &label) {
  label = load<int64_t>(labels, row);
  if (label == ignored || (label >= 0 && label < width))
    return true;
  if (reports)
    reportFailure(report, {FailureCode::IndexOutOfRange, 0, 0, 0, row, label, 0, width});
  return false;
}

template <typename T, bool kWide> __device__ void crossEntropy(const CrossEntropyParams &p) {
  using Group = RowGroup<kWide>;
  int64_t row = Group::row(), label;
  if (row >= p.rows || !labelOf(p.labels, row, p.width, p.ignored, p.report, Group::thread() == 0, label))
    return;
  const T *logits = static_cast<const T *>(p.logits) + row * p.width;
  RunningLse own;
  Group::forChunks(p.width, p.packed, [&](int64_t at, int64_t n, bool packed) {
    Chunk chunk = loadChunk(logits + at, n, packed);
    own.raise(largestOf(chunk, n));
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      own.sum += i < n && own.largest > -kInfinity ? expf(chunk.v[i] - own.largest) : 0;
  });
  float largest, sum, lse = rowLse<Group>(own, largest, sum);
  if (Group::thread() == 0) {
    p.lse[row] = lse;
    p.loss[row] = label == p.ignored ? 0 : lse - toFloat(logits[label]);
  }
}

template <typename T, bool kWide> __device__ void crossEntropyGrad(const CrossEntropyGradParams &p) {
  using Group = RowGroup<kWide>;
  int64_t row = Group::row(), label;
  if (row >= p.rows || !labelOf(p.labels, row, p.width, p.ignored, p.report, Group::thread() == 0, label))
    return;
  const T *logits = static_cast<const T *>(p.logits) + row * p.width;
  T *dlogits = static_cast<T *>(p.dlogits) + row * p.width;
  float lse = p.lse[row], dloss = load<float>(p.dloss, offsetOf(p.spread, row));
  auto load = [&](int64_t at, int64_t n, bool packed) { return loadChunk(logits + at, n, packed); };
  Group::template mapChunks<sizeof(T) == 2 ? 4 : 2>(
      p.width, p.packed, load, [&](int64_t at, int64_t n, bool packed, Chunk &chunk) {
#pragma unroll
        for (int i = 0; i < kChunk; ++i)
          chunk.v[i] = label == p.ignored ? 0 : (expf(chunk.v[i] - lse) - (at + i == label ? 1 : 0)) * dloss;
        storeChunk(dlogits + at, chunk, n, packed);
      });
}

template <typename S, typename U, bool kWide> __device__ void klDivergence(const KlParams &p) {
  using Group = RowGroup<kWide>;
  int64_t row = Group::row();
  if (row >= p.rows)
    return;
  const S *student = static_cast<const S *>(p.student) + row * p.width;
  const U *teacher = static_cast<const U *>(p.teacher) + row * p.width;
  // Σ p_t (log p_t − log p_s) = Σ p_t (z_t − z_s) − lse_t + lse_s; the first sum is kept relative to the largest z_t so
  // far.
  RunningLse ownStudent, ownTeacher;
  float difference = 0;
  Group::forChunks(p.width, p.packed, [&](int64_t at, int64_t n, bool packed) {
    Chunk s = loadChunk(student + at, n, packed), t = loadChunk(teacher + at, n, packed);
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      s.v[i] *= p.inverseTemperature;
      t.v[i] *= p.inverseTemperature;
    }
    ownStudent.raise(largestOf(s, n));
    difference *= ownTeacher.raise(largestOf(t, n));
#pragma unroll
    for (int i = 0; i < kChunk; ++i) {
      if (i < n && ownStudent.largest > -kInfinity)
        ownStudent.sum += expf(s.v[i] - ownStudent.largest);
      float weight = i < n && ownTeacher.largest > -kInfinity ? expf(t.v[i] - ownTeacher.largest) : 0;
      ownTeacher.sum += weight;
      if (weight > 0)
        difference += weight * (t.v[i] - s.v[i]);
    }
  });
  float largest, sum;
  float lseStudent = rowLse<Group>(ownStudent, largest, sum), lseTeacher = rowLse<Group>(ownTeacher, largest, sum);
  float total = Group::sum(ownTeacher.largest == -kInfinity ? 0 : difference * expf(ownTeacher.largest - largest));
  if (Group::thread() == 0) {
    p.loss[row] = total / sum - (lseTeacher - lseStudent);
    p.lseStudent[row] = lseStudent;
    p.lseTeacher[row] = lseTeacher;
  }
}

template <typename S, typename U, bool kWide> __device__ void klDivergenceGrad(const KlGradParams &p) {
  using Group = RowGroup<kWide>;
  int64_t row = Group::row();
  if (row >= p.rows)
    return;
  const S *student = static_cast<const S *>(p.student) + row * p.width;
  const U *teacher = static_cast<const U *>(p.teacher) + row * p.width;
  S *dstudent = static_cast<S *>(p.dstudent) + row * p.width;
  float lseStudent = p.lseStudent[row], lseTeacher = p.lseTeacher[row];
  float factor = load<float>(p.dloss, offsetOf(p.spread, row)) * p.inverseTemperature;
  struct Logits {
    Chunk s, t;
  };
  auto load = [&](int64_t at, int64_t n, bool packed) {
    return Logits{loadChunk(student + at, n, packed), loadChunk(teacher + at, n, packed)};
  };
  Group::template mapChunks<2>(p.width, p.packed, load, [&](int64_t at, int64_t n, bool packed, Logits &logits) {
    Chunk &s = logits.s, &t = logits.t;
#pragma unroll
    for (int i = 0; i < kChunk; ++i)
      s.v[i] = (expf(s.v[i] * p.inverseTemperature - lseStudent) - expf(t.v[i] * p.inverseTemperature - lseTeacher)) *
               factor;
    storeChunk(dstudent + at, s, n, packed);
  });
}

} // namespace

#define CROSS_ENTROPY(X, suffix, T)                                                                                    \
  X(cross_entropy_##suffix, CrossEntropyParams, (crossEntropy<T, false>))                                              \
  X(cross_entropy_wide_##suffix, CrossEntropyParams, (crossEntropy<T, true>))                                          \
  X(cross_entropy_grad_##suffix, CrossEntropyGradParams, (crossEntropyGrad<T, false>))                                 \
  X(cross_entropy_grad_wide_##suffix, CrossEntropyGradParams, (crossEntropyGrad<T, true>))
#define KL_DIVERGENCE(X, suffix, S, U)                                                                                 \
  X(kl_divergence_##suffix, KlParams, (klDivergence<S, U, false>))                                                     \
  X(kl_divergence_wide_##suffix, KlParams, (klDivergence<S, U, true>))                                                 \
  X(kl_divergence_grad_##suffix, KlGradParams, (klDivergenceGrad<S, U, false>))                                        \
  X(kl_divergence_grad_wide_##suffix, KlGradParams, (klDivergenceGrad<S, U, true>))
#define KERNELS(X)                                                                                                     \
  CROSS_ENTROPY(X, f32, float)                                                                                         \
  CROSS_ENTROPY(X, bf16, Bf16)                                                                                         \
  KL_DIVERGENCE(X, f32_f32, float, float)                                                                              \
  KL_DIVERGENCE(X, f32_bf16, float, Bf16)                                                                              \
  KL_DIVERGENCE(X, bf16_f32, Bf16, float)                                                                              \
  KL_DIVERGENCE(X, bf16_bf16, Bf16, Bf16)

MAESTRO_KERNELS(loss, KERNELS)
#undef KERNELS
#undef CROSS_ENTROPY
#undef KL_DIVERGENCE

} // namespace maestro::kernels::cuda
