// Kernels that a device's queues use themselves: bytes by value, zeros and strided copies anywhere, sums in order.
#include "kernels/cuda/queue.h"

#include "kernels/cuda/device.h"
#include "kernels/cuda/kernel.h"

namespace maestro::kernels::cuda {
namespace {

__device__ void putBytes(const PutBytesParams &params) {
  int64_t i = threadOfGrid();
  if (i < params.bytes)
    static_cast<uint8_t *>(params.to)[i] = params.data[i];
}

__device__ void fillZero(const FillZeroParams &params) {
  int64_t i = threadOfGrid();
  if (i < params.bytes)
    static_cast<uint8_t *>(params.to)[i] = 0;
}

template <typename Unit> __device__ void copyUnit(const CopyBoxParams &params, int64_t from, int64_t to) {
  static_cast<Unit *>(params.to)[to] = static_cast<const Unit *>(params.from)[from];
}

__device__ void copyBox(const CopyBoxParams &params) {
  int64_t i = threadOfGrid();
  if (i >= params.count)
    return;
  int64_t at[2];
  offsetsOf(params.map, i, at);
  switch (params.unitBytes) {
  case 16:
    return copyUnit<uint4>(params, at[0], at[1]);
  case 8:
    return copyUnit<uint64_t>(params, at[0], at[1]);
  case 4:
    return copyUnit<uint32_t>(params, at[0], at[1]);
  case 2:
    return copyUnit<uint16_t>(params, at[0], at[1]);
  default:
    return copyUnit<uint8_t>(params, at[0], at[1]);
  }
}

__device__ void sumParts(const SumPartsParams &params) {
  int64_t i = threadOfGrid();
  if (!params.packed) {
    if (i >= params.count)
      return;
    float sum = params.from[0][i];
    for (int p = 1; p < params.parts; ++p)
      sum += params.from[p][i];
    params.to[i] = sum;
    return;
  }
  constexpr int kCount = Pack<float>::kCount;
  i *= kCount;
  if (i >= params.count)
    return;
  Pack<float> sum = loadPack(params.from[0] + i);
  for (int p = 1; p < params.parts; ++p) {
    Pack<float> part = loadPack(params.from[p] + i);
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      sum.items[k] += part.items[k];
  }
  storePack(params.to + i, sum);
}

} // namespace

#define KERNELS(X)                                                                                                     \
  X(put_bytes, PutBytesParams, putBytes)                                                                               \
  X(fill_zero, FillZeroParams, fillZero)                                                                               \
  X(copy_box, CopyBoxParams, copyBox)                                                                                  \
  X(sum_parts, SumPartsParams, sumParts)
MAESTRO_KERNELS(queue, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda
