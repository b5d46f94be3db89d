// The extremes along an axis: a warp a line.
#include "kernels/cuda/reduce.h"

#include "kernels/cuda/block.h"

namespace maestro::kernels::cuda {
namespace {

template <typename C> struct Candidate {
  C value;
  int64_t index; ///< −1: none.
};

/// Whether a comes before b: NaN first (last of the smallest), then by value, ties by the lower index.
template <typename C> __device__ bool comesBefore(const Candidate<C> &a, const Candidate<C> &b, bool largest) {
  bool aNaN = a.value != a.value, bNaN = b.value != b.value;
  if (aNaN != bNaN)
    return aNaN == largest;
  if (!aNaN && a.value != b.value)
    return largest ? a.value > b.value : a.value < b.value;
  return a.index < b.index;
}

/// The first of the lanes' candidates by `before`; all lanes have it.
template <typename C, typename Before> __device__ Candidate<C> firstOfWarp(Candidate<C> best, Before before) {
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    Candidate<C> other = {__shfl_xor_sync(kAllLanes, best.value, distance),
                          __shfl_xor_sync(kAllLanes, best.index, distance)};
    if (other.index >= 0 && (best.index < 0 || before(other, best)))
      best = other;
  }
  return best;
}

__device__ int64_t warpLine() { return int64_t(blockIdx.x) * (kBlock / kWarp) + warpOf(); }

template <typename C> __device__ void topK(const SelectParams &p) {
  int64_t line = warpLine(), inner = p.dims.inner, length = p.dims.axis;
  if (line >= p.dims.outer * inner)
    return;
  int64_t outer = line / inner, at = line % inner;
  auto before = [&](const Candidate<C> &a, const Candidate<C> &b) { return comesBefore(a, b, p.largest); };
  Candidate<C> previous = {C(0), -1};
  for (int64_t rank = 0; rank < p.k; ++rank) {
    Candidate<C> best = {C(0), -1};
    for (int64_t i = laneOf(); i < length; i += kWarp) {
      Candidate<C> found = {load<C>(p.x, (outer * length + i) * inner + at), i};
      if ((previous.index < 0 || before(previous, found)) && (best.index < 0 || before(found, best)))
        best = found;
    }
    best = firstOfWarp(best, before);
    if (laneOf() == 0) {
      int64_t target = (outer * p.k + rank) * inner + at;
      store(p.values, target, best.value);
      store(p.indices, target, best.index);
    }
    previous = best;
  }
}

/// NaN is never more extreme, and nothing is more extreme than a NaN that comes first.
template <typename C> __device__ void argExtreme(const SelectParams &p) {
  int64_t line = warpLine(), inner = p.dims.inner, length = p.dims.axis;
  if (line >= p.dims.outer * inner)
    return;
  int64_t start = line / inner * length * inner + line % inner;
  auto before = [&](const Candidate<C> &a, const Candidate<C> &b) {
    if (a.value != b.value)
      return p.largest ? a.value > b.value : a.value < b.value;
    return p.last ? a.index > b.index : a.index < b.index;
  };
  Candidate<C> best = {C(0), -1};
  for (int64_t i = laneOf(); i < length; i += kWarp) {
    Candidate<C> found = {load<C>(p.x, start + i * inner), i};
    if (found.value == found.value && (best.index < 0 || before(found, best)))
      best = found;
  }
  best = firstOfWarp(best, before);
  C first = load<C>(p.x, start);
  if (laneOf() == 0)
    store(p.indices, line, first != first || best.index < 0 ? int64_t(0) : best.index);
}

} // namespace

#define KERNELS(X)                                                                                                     \
  X(top_k_f32, SelectParams, topK<float>)                                                                              \
  X(top_k_f64, SelectParams, topK<double>)                                                                             \
  X(top_k_integer, SelectParams, topK<int64_t>)                                                                        \
  X(arg_extreme_f32, SelectParams, argExtreme<float>)                                                                  \
  X(arg_extreme_f64, SelectParams, argExtreme<double>)                                                                 \
  X(arg_extreme_integer, SelectParams, argExtreme<int64_t>)

MAESTRO_KERNELS(select, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda
