// Patches of a convolution's operand as a matrix, and back.
#include "kernels/cuda/conv.h"

#include "kernels/cuda/block.h"

namespace maestro::kernels::cuda {
namespace {

/// Coordinates in three dims.
struct Coordinates {
  int64_t at[3];
};
__device__ __forceinline__ Coordinates coordinatesIn(const int64_t (&dims)[3], int64_t index) {
  Divided last = divided(index, dims[2]), middle = divided(last.whole, dims[1]);
  return {{middle.whole, middle.rest, last.rest}};
}
__device__ __forceinline__ int64_t size(const int64_t (&dims)[3]) { return dims[0] * dims[1] * dims[2]; }

/// A thread has a window and a channel: what lies under each tap.
template <typename T> __device__ void patches(const PatchParams &p) {
  const WindowDims &w = p.window;
  int64_t outputs = size(w.output), index = threadOfGrid();
  if (index >= p.samples * outputs * p.channels)
    return;
  Divided byRow = divided(index, p.channels), bySample = divided(byRow.whole, outputs);
  Coordinates out = coordinatesIn(w.output, bySample.rest);
  const T *x = static_cast<const T *>(p.x) + (bySample.whole * p.channels + byRow.rest) * size(w.input);
  T *to = static_cast<T *>(p.patches) + index * size(w.kernel);
  for (int64_t i = 0; i < w.kernel[0]; ++i)
    for (int64_t j = 0; j < w.kernel[1]; ++j)
      for (int64_t k = 0; k < w.kernel[2]; ++k) {
        int64_t a = out.at[0] * w.stride[0] + i * w.dilation[0] - w.low[0];
        int64_t b = out.at[1] * w.stride[1] + j * w.dilation[1] - w.low[1];
        int64_t c = out.at[2] * w.stride[2] + k * w.dilation[2] - w.low[2];
        bool inside = a >= 0 && a < w.input[0] && b >= 0 && b < w.input[1] && c >= 0 && c < w.input[2];
        *to++ = inside ? x[(a * w.input[1] + b) * w.input[2] + c] : T(0);
      }
}

/// In one dim, the output whose window has `in` under `tap`; −1: none.
__device__ __forceinline__ int64_t outputUnder(const WindowDims &w, int d, int64_t in, int64_t tap) {
  int64_t at = in + w.low[d] - tap * w.dilation[d];
  if (at < 0)
    return -1;
  Divided window = divided(at, w.stride[d]);
  return window.rest == 0 && window.whole < w.output[d] ? window.whole : -1;
}

/// A thread has an element of x: the sum over the windows that have it, tap by tap.
template <typename T> __device__ void foldPatches(const PatchParams &p) {
  const WindowDims &w = p.window;
  int64_t inputs = size(w.input), outputs = size(w.output), taps = size(w.kernel), index = threadOfGrid();
  if (index >= p.samples * p.channels * inputs)
    return;
  Divided byPlane = divided(index, inputs), bySample = divided(byPlane.whole, p.channels);
  Coordinates in = coordinatesIn(w.input, byPlane.rest);
  const T *from = static_cast<const T *>(p.patches);
  float sum = 0;
  int64_t tap = 0;
  for (int64_t i = 0; i < w.kernel[0]; ++i)
    for (int64_t j = 0; j < w.kernel[1]; ++j)
      for (int64_t k = 0; k < w.kernel[2]; ++k, ++tap) {
        int64_t a = outputUnder(w, 0, in.at[0], i), b = outputUnder(w, 1, in.at[1], j),
                c = outputUnder(w, 2, in.at[2], k);
        if (a < 0 || b < 0 || c < 0)
          continue;
        int64_t row = bySample.whole * outputs + (a * w.output[1] + b) * w.output[2] + c;
        sum += toFloat(from[(row * p.channels + bySample.rest) * taps + tap]);
      }
  static_cast<T *>(p.x)[index] = fromFloat<T>(sum);
}

} // namespace

#define KERNELS(X)                                                                                                     \
  X(conv_patches_2, PatchParams, patches<uint16_t>)                                                                    \
  X(conv_patches_4, PatchParams, patches<uint32_t>)                                                                    \
  X(conv_fold_f32, PatchParams, foldPatches<float>)                                                                    \
  X(conv_fold_bf16, PatchParams, foldPatches<Bf16>)

MAESTRO_KERNELS(conv, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda
