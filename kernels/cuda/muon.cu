// Muon around its products (kernels/muon.h is the host's). The matrix is bf16 between momentum and update, as PyTorch's
// is.
#include "kernels/cuda/muon.h"

#include "kernels/cuda/block.h"
#include "kernels/cuda/update.h"
#include "kernels/optimizer_scalars.h"

namespace maestro::kernels::cuda {
namespace {

__device__ void muonMomentum(const MuonMomentumParams &p) {
  int64_t first = blockIdx.x * kSquaresPerBlock;
  int64_t end = first + kSquaresPerBlock < p.count ? first + kSquaresPerBlock : p.count;
  float scale = p.scalars[kGradientScale];
  auto *x = reinterpret_cast<Bf16 *>(p.x);
  double sum = 0;
  for (int64_t i = first + threadIdx.x; i < end; i += kBlock) {
    float g = p.grad[i] * scale, buffer = p.buffer[i];
    buffer += (1 - p.momentum) * (g - buffer);
    p.buffer[i] = buffer;
    float direction = p.nesterov ? g + p.momentum * (buffer - g) : buffer;
    x[i] = fromFloat<Bf16>(direction);
    sum += static_cast<double>(direction) * direction;
    if (p.cleared)
      p.cleared[i] = 0;
  }
  sum = blockReduce(sum, Sum());
  if (threadIdx.x == 0)
    p.partial[blockIdx.x] = sum;
}

__device__ void muonScale(const MuonScaleParams &p) {
  int64_t i = threadOfGrid();
  if (i >= p.count)
    return;
  auto *x = reinterpret_cast<Bf16 *>(p.x);
  float norm = static_cast<float>(sqrt(*p.squares));
  x[i] = fromFloat<Bf16>(toFloat(x[i]) / larger(norm, p.eps));
}

__device__ void muonCombine(const MuonCombineParams &p) {
  int64_t i = threadOfGrid();
  if (i >= p.count)
    return;
  auto *x = reinterpret_cast<Bf16 *>(p.x);
  x[i] = fromFloat<Bf16>(p.a * toFloat(x[i]) + p.b * toFloat(reinterpret_cast<const Bf16 *>(p.y)[i]));
}

__device__ void muonApply(const MuonApplyParams &p) {
  int64_t i = threadOfGrid();
  if (i >= p.count)
    return;
  double learningRate = p.scalars[kLearningRate];
  float shrink = static_cast<float>(1 - learningRate * p.weightDecay),
        stepSize = static_cast<float>(learningRate * p.ratio);
  float param = p.param[i] * shrink - stepSize * toFloat(reinterpret_cast<const Bf16 *>(p.x)[i]);
  p.param[i] = param;
  if (p.copy.data)
    store(p.copy, i, param);
}

} // namespace

#define KERNELS(X)                                                                                                     \
  X(muon_momentum, MuonMomentumParams, muonMomentum)                                                                   \
  X(muon_scale, MuonScaleParams, muonScale)                                                                            \
  X(muon_combine, MuonCombineParams, muonCombine)                                                                      \
  X(muon_apply, MuonApplyParams, muonApply)

MAESTRO_KERNELS(muon, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda
