// Optimizer steps in place, in PyTorch's order of operations (kernels/optimizer.h is the CPU's), and the sum of squares
// of a gradient.
#include "kernels/cuda/update.h"

#include "kernels/cuda/block.h"
#include "kernels/optimizer_scalars.h"

namespace maestro::kernels::cuda {
namespace {

/// Writes what follows an update: the copy of the parameter and the cleared gradient.
__device__ void finishUpdate(int64_t at, float param, float *cleared, const AnyTensor &copy) {
  if (cleared)
    cleared[at] = 0;
  if (copy.data)
    store(copy, at, param);
}

__device__ void adam(const AdamParams &p) {
  __shared__ float shrink, stepSize, rootCorrection2;
  if (threadIdx.x == 0) { // In f64, once a block.
    double learningRate = p.scalars[kLearningRate];
    shrink = p.decoupled ? static_cast<float>(1 - learningRate * p.weightDecay) : 1;
    stepSize = static_cast<float>(learningRate / p.scalars[kBiasCorrection1]);
    rootCorrection2 = static_cast<float>(sqrt(static_cast<double>(p.scalars[kBiasCorrection2])));
  }
  __syncthreads();
  float scale = p.scalars[kGradientScale];
#pragma unroll
  for (int k = 0; k < kUpdatesPerThread; ++k) { // Neighbouring threads, neighbouring elements.
    int64_t at = (static_cast<int64_t>(blockIdx.x) * kUpdatesPerThread + k) * kBlock + threadIdx.x;
    if (at >= p.count)
      return;
    float param = p.param[at], m = p.m[at], v = p.v[at];
    float g = p.grad[at] * scale + p.addedDecay * param;
    param *= shrink;
    m += p.oneMinusBeta1 * (g - m);
    v = v * p.beta2 + p.oneMinusBeta2 * g * g;
    param -= stepSize * m / (sqrtf(v) / rootCorrection2 + p.eps);
    p.param[at] = param;
    p.m[at] = m;
    p.v[at] = v;
    finishUpdate(at, param, p.cleared, p.copy);
  }
}

__device__ void sgd(const SgdParams &p) {
  float learningRate = p.scalars[kLearningRate], scale = p.scalars[kGradientScale];
  bool first = p.scalars[kStep] <= 1;
#pragma unroll
  for (int k = 0; k < kUpdatesPerThread; ++k) {
    int64_t at = (static_cast<int64_t>(blockIdx.x) * kUpdatesPerThread + k) * kBlock + threadIdx.x;
    if (at >= p.count)
      return;
    float param = p.param[at], g = p.grad[at] * scale + p.weightDecay * param;
    if (p.momentumBuffer) {
      float buffer = first ? g : p.momentum * p.momentumBuffer[at] + g;
      p.momentumBuffer[at] = buffer;
      g = p.nesterov ? g + p.momentum * buffer : buffer;
    }
    param -= learningRate * g;
    p.param[at] = param;
    finishUpdate(at, param, p.cleared, p.copy);
  }
}

__device__ void sumSquares(const SumSquaresParams &p) {
  int64_t first = blockIdx.x * kSquaresPerBlock;
  int64_t end = first + kSquaresPerBlock < p.count ? first + kSquaresPerBlock : p.count;
  double sum = 0;
  for (int64_t at = first + threadIdx.x; at < end; at += kBlock) {
    double x = load<double>(p.x, at);
    sum += x * x;
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
  X(sum_squares_partial, SumSquaresParams, sumSquares)                                                                 \
  X(sum_partial, SumPartialParams, sumPartial)

MAESTRO_KERNELS(update, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda
