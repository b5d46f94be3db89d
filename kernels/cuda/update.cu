// Optimizer steps in place, in PyTorch's order of operations (kernels/optimizer.h is the CPU's), and the sum of squares
// of a gradient.
#include "kernels/cuda/update.h"

#include "kernels/cuda/block.h"
#include "kernels/optimizer_scalars.h"

namespace maestro::kernels::cuda {
namespace {

/// Four neighbouring elements in f32, or what is left of them.
struct Quartet {
  float v[kUpdatesPerThread];
};
__device__ __forceinline__ Quartet loadQuartet(const float *from, int64_t left, bool packed) {
  Quartet quartet;
  if (packed) {
    Pack<float> pack = loadPack(from);
#pragma unroll
    for (int i = 0; i < kUpdatesPerThread; ++i)
      quartet.v[i] = pack.items[i];
  } else {
#pragma unroll
    for (int i = 0; i < kUpdatesPerThread; ++i)
      quartet.v[i] = i < left ? from[i] : 0;
  }
  return quartet;
}
__device__ __forceinline__ void storeQuartet(float *to, const Quartet &quartet, int64_t left, bool packed) {
  if (packed) {
    Pack<float> pack;
#pragma unroll
    for (int i = 0; i < kUpdatesPerThread; ++i)
      pack.items[i] = quartet.v[i];
    storePack(to, pack);
  } else {
#pragma unroll
    for (int i = 0; i < kUpdatesPerThread; ++i)
      if (i < left)
        to[i] = quartet.v[i];
  }
}

/// Writes what follows an update: the parameter, its copy and the cleared gradient.
__device__ void finishUpdate(float *to, const Quartet &param, float *cleared, const AnyTensor &copy, int64_t at,
                             int64_t left, bool packed) {
  storeQuartet(to + at, param, left, packed);
  if (cleared)
    storeQuartet(cleared + at, {}, left, packed);
  if (copy.data && packed && copy.dtype == DType::BF16) { // As one access, as usual.
    Bf16 items[kUpdatesPerThread];
#pragma unroll
    for (int i = 0; i < kUpdatesPerThread; ++i)
      items[i] = fromFloat<Bf16>(param.v[i]);
    uint64_t word;
    memcpy(&word, items, sizeof word);
    *reinterpret_cast<uint64_t *>(static_cast<Bf16 *>(copy.data) + at) = word;
  } else if (copy.data)
#pragma unroll
    for (int i = 0; i < kUpdatesPerThread; ++i)
      if (i < left)
        store(copy, at + i, param.v[i]);
}

/// What a step takes from its scalars, computed in f64 once a block.
struct AdamStep {
  float shrink, stepSize, rootCorrection2;
};

__device__ __forceinline__ void adamQuartet(const AdamParams &p, const AdamStep &step, int64_t at, int64_t left,
                                            bool packed) {
  Quartet param = loadQuartet(p.param + at, left, packed), grad = loadQuartet(p.grad + at, left, packed);
  Quartet m = loadQuartet(p.m + at, left, packed), v = loadQuartet(p.v + at, left, packed);
  float scale = p.scalars[kGradientScale];
#pragma unroll
  for (int i = 0; i < kUpdatesPerThread; ++i) {
    float g = grad.v[i] * scale + p.addedDecay * param.v[i];
    param.v[i] *= step.shrink;
    m.v[i] += p.oneMinusBeta1 * (g - m.v[i]);
    v.v[i] = v.v[i] * p.beta2 + p.oneMinusBeta2 * g * g;
    param.v[i] -= step.stepSize * m.v[i] / (sqrtf(v.v[i]) / step.rootCorrection2 + p.eps);
  }
  storeQuartet(p.m + at, m, left, packed);
  storeQuartet(p.v + at, v, left, packed);
  finishUpdate(p.param, param, p.cleared, p.copy, at, left, packed);
}
__device__ void adam(const AdamParams &p) {
  __shared__ AdamStep step;
  if (threadIdx.x == 0) {
    double learningRate = p.scalars[kLearningRate];
    step.shrink = p.decoupled ? static_cast<float>(1 - learningRate * p.weightDecay) : 1;
    step.stepSize = static_cast<float>(learningRate / p.scalars[kBiasCorrection1]);
    step.rootCorrection2 = static_cast<float>(sqrt(static_cast<double>(p.scalars[kBiasCorrection2])));
  }
  __syncthreads();
  int64_t at = threadOfGrid() * kUpdatesPerThread, left = p.count - at;
  if (p.packed && left >= kUpdatesPerThread)
    adamQuartet(p, step, at, kUpdatesPerThread, true); // Without branches between its loads.
  else if (left > 0)
    adamQuartet(p, step, at, left, false);
}

__device__ __forceinline__ void sgdQuartet(const SgdParams &p, int64_t at, int64_t left, bool packed) {
  bool first = p.scalars[kStep] <= 1;
  float learningRate = p.scalars[kLearningRate], scale = p.scalars[kGradientScale];
  Quartet param = loadQuartet(p.param + at, left, packed), grad = loadQuartet(p.grad + at, left, packed), buffer;
  if (p.momentumBuffer)
    buffer = loadQuartet(p.momentumBuffer + at, left, packed);
#pragma unroll
  for (int i = 0; i < kUpdatesPerThread; ++i) {
    float g = grad.v[i] * scale + p.weightDecay * param.v[i];
    if (p.momentumBuffer) {
      buffer.v[i] = first ? g : p.momentum * buffer.v[i] + g;
      g = p.nesterov ? g + p.momentum * buffer.v[i] : buffer.v[i];
    }
    param.v[i] -= learningRate * g;
  }
  if (p.momentumBuffer)
    storeQuartet(p.momentumBuffer + at, buffer, left, packed);
  finishUpdate(p.param, param, p.cleared, p.copy, at, left, packed);
}
__device__ void sgd(const SgdParams &p) {
  int64_t at = threadOfGrid() * kUpdatesPerThread, left = p.count - at;
  if (p.packed && left >= kUpdatesPerThread)
    sgdQuartet(p, at, kUpdatesPerThread, true);
  else if (left > 0)
    sgdQuartet(p, at, left, false);
}

__device__ void average(const AverageParams &p) {
  int64_t i = threadOfGrid();
  if (i >= p.count)
    return;
  float param = p.param[i], kept = p.average[i];
  p.average[i] = p.scalars[kStep] <= 1 ? param : kept + p.oneMinusDecay * (param - kept);
}

__device__ void sumSquares(const SumSquaresParams &p) {
  int64_t first = blockIdx.x * kSquaresPerBlock;
  int64_t end = first + kSquaresPerBlock < p.count ? first + kSquaresPerBlock : p.count;
  double sum = 0;
  if (p.packed && end - first == kSquaresPerBlock) { // All accesses are under way before the first is waited for.
    constexpr int kAccesses = kSquaresPerBlock / kBlock / kUpdatesPerThread;
    Quartet quartets[kAccesses];
    const float *x = static_cast<const float *>(p.x.data) + first + threadIdx.x * kUpdatesPerThread;
#pragma unroll
    for (int k = 0; k < kAccesses; ++k)
      quartets[k] = loadQuartet(x + k * kBlock * kUpdatesPerThread, kUpdatesPerThread, true);
#pragma unroll
    for (const Quartet &quartet : quartets)
#pragma unroll
      for (float value : quartet.v)
        sum += static_cast<double>(value) * value;
  } else {
    for (int64_t at = first + threadIdx.x; at < end; at += kBlock) {
      double x = load<double>(p.x, at);
      sum += x * x;
    }
  }
  sum = blockReduce(sum, Sum());
  if (threadIdx.x == 0)
    p.partial[blockIdx.x] = sum;
}

__device__ void sumPartial(const SumPartialParams &p) {
  double sum = 0;
  for (int64_t at = threadIdx.x; at < p.count; at += kBlock)
    sum += p.partial[at];
  sum = blockReduce(sum, Sum());
  if (threadIdx.x == 0)
    *p.result = p.adds ? *p.result + sum : sum;
}

} // namespace

#define KERNELS(X)                                                                                                     \
  X(adam_step, AdamParams, adam)                                                                                       \
  X(sgd_step, SgdParams, sgd)                                                                                          \
  X(average_step, AverageParams, average)                                                                              \
  X(sum_squares_partial, SumSquaresParams, sumSquares)                                                                 \
  X(sum_partial, SumPartialParams, sumPartial)

MAESTRO_KERNELS(update, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda
