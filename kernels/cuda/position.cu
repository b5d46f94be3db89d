// Rotary embedding, and dropout by the CPU's random numbers.
#include "kernels/cuda/position.h"

#include "kernels/cuda/block.h"

namespace maestro::kernels::cuda {
namespace {

template <typename T> __device__ void rope(const RopeParams &p) {
  int64_t i = threadOfGrid();
  if (i >= p.pairs)
    return;
  int64_t half = p.width / 2, row = i / half * p.width, pair = i % half;
  int64_t first = row + (p.interleaved ? 2 * pair : pair);
  int64_t second = p.interleaved ? first + 1 : first + half;
  const T *x = static_cast<const T *>(p.x);
  T *y = static_cast<T *>(p.y);
  int64_t atFirst[2], atSecond[2];
  offsetsOf(p.map, first, atFirst);
  offsetsOf(p.map, second, atSecond);
  float a = toFloat(x[first]), b = toFloat(x[second]);
  float sinA = load<float>(p.sine, atFirst[1]), sinB = load<float>(p.sine, atSecond[1]);
  // rotate(x) = (−b, a); its transpose applied to x·sin = (b·sinB, −a·sinA).
  y[first] = fromFloat<T>(a * load<float>(p.cosine, atFirst[0]) + (p.adjoint ? b * sinB : -b * sinA));
  y[second] = fromFloat<T>(b * load<float>(p.cosine, atSecond[0]) + (p.adjoint ? -a * sinA : a * sinB));
}

//===--- Philox4x32-10 (base/philox.h is the CPU's) ----------------------------===//

struct PhiloxNumbers {
  uint32_t c[4];
};

__device__ PhiloxNumbers philox(PhiloxNumbers numbers, uint32_t key0, uint32_t key1) {
  uint32_t(&c)[4] = numbers.c;
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53u} * c[0], p1 = uint64_t{0xCD9E8D57u} * c[2];
    c[0] = static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key0;
    c[1] = static_cast<uint32_t>(p1);
    c[2] = static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key1;
    c[3] = static_cast<uint32_t>(p0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return numbers;
}

/// 64 bits folded to 32, so that small numbers stay themselves.
__device__ uint32_t folded(int64_t value) {
  return static_cast<uint32_t>(value) ^ static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32);
}

/// The number of one element: word position % 4 of counter (step, sample, row, position ÷ 4).
__device__ float dropoutNumber(const DropoutParams &p, int64_t row, int64_t position) {
  int64_t sample = load<int64_t>(p.sampleIds, row / p.rowsPerSample);
  PhiloxNumbers numbers = {folded(load<int64_t>(p.state, 1)), folded(sample), folded(row % p.rowsPerSample),
                           folded(position >> 2)};
  numbers = philox(numbers, folded(load<int64_t>(p.state, 0)), folded(p.stream));
  uint32_t word =
      position & 2 ? (position & 1 ? numbers.c[3] : numbers.c[2]) : (position & 1 ? numbers.c[1] : numbers.c[0]);
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

template <typename T> __device__ void dropout(const DropoutParams &p) {
  int64_t at = threadOfGrid();
  if (at >= p.count)
    return;
  int64_t row = at / p.width;
  bool dropped = dropoutNumber(p, row, offsetOf(p.position, at % p.width)) < p.ratio;
  static_cast<T *>(p.y)[at] = fromFloat<T>(dropped ? 0 : toFloat(static_cast<const T *>(p.x)[at]) * p.scale);
}

} // namespace

#define KERNELS(X)                                                                                                     \
  X(rope_f32, RopeParams, rope<float>)                                                                                 \
  X(rope_bf16, RopeParams, rope<Bf16>)                                                                                 \
  X(dropout_f32, DropoutParams, dropout<float>)                                                                        \
  X(dropout_bf16, DropoutParams, dropout<Bf16>)

MAESTRO_KERNELS(position, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda
