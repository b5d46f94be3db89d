// Rotary embedding, and dropout by the CPU's random numbers.
#include "kernels/cuda/position.h"

#include "kernels/cuda/rows.h"

namespace maestro::kernels::cuda {
namespace {

/// One pair: rotate(x) = (−b, a); its transpose applied to x·sin = (b·sinB, −a·sinA).
__device__ __forceinline__ void rotatePair(float &a, float &b, float cosA, float sinA, float cosB, float sinB,
                                           bool adjoint) {
  float first = a * cosA + (adjoint ? b * sinB : -b * sinA), second = b * cosB + (adjoint ? -a * sinA : a * sinB);
  a = first;
  b = second;
}

template <typename T> __device__ void rope(const RopeParams &p) {
  int64_t i = threadOfGrid();
  if (i >= p.pairs)
    return;
  Divided at = divided(i, p.width / 2);
  int64_t half = p.width / 2, row = at.whole * p.width, pair = at.rest;
  int64_t first = row + (p.interleaved ? 2 * pair : pair);
  int64_t second = p.interleaved ? first + 1 : first + half;
  const T *x = static_cast<const T *>(p.x);
  T *y = static_cast<T *>(p.y);
  int64_t atFirst[2], atSecond[2];
  offsetsOf(p.map, first, atFirst);
  offsetsOf(p.map, second, atSecond);
  float a = toFloat(x[first]), b = toFloat(x[second]);
  rotatePair(a, b, load<float>(p.cosine, atFirst[0]), load<float>(p.sine, atFirst[1]),
             load<float>(p.cosine, atSecond[0]), load<float>(p.sine, atSecond[1]), p.adjoint);
  y[first] = fromFloat<T>(a);
  y[second] = fromFloat<T>(b);
}

/// Eight pairs of halves a thread; W is the type of cosine and sine.
template <typename T, typename W> __device__ void ropePacked(const RopeParams &p) {
  int64_t i = threadOfGrid() * kChunk;
  if (i >= p.pairs)
    return;
  Divided where = divided(i, p.width / 2);
  int64_t half = p.width / 2, first = where.whole * p.width + where.rest, second = first + half;
  const T *x = static_cast<const T *>(p.x);
  T *y = static_cast<T *>(p.y);
  const W *cosine = static_cast<const W *>(p.cosine.data), *sine = static_cast<const W *>(p.sine.data);
  int64_t atFirst[2];
  offsetsOf(p.map, first, atFirst);
  int64_t atSecond[2] = {atFirst[0] + half, atFirst[1] + half}; // In the same row, where neighbours are neighbours.
  Chunk a = loadChunk(x + first, kChunk, true), b = loadChunk(x + second, kChunk, true);
  Chunk cosA = loadChunk(cosine + atFirst[0], kChunk, true), cosB = loadChunk(cosine + atSecond[0], kChunk, true);
  Chunk sinA = loadChunk(sine + atFirst[1], kChunk, true), sinB = loadChunk(sine + atSecond[1], kChunk, true);
#pragma unroll
  for (int k = 0; k < kChunk; ++k)
    rotatePair(a.v[k], b.v[k], cosA.v[k], sinA.v[k], cosB.v[k], sinB.v[k], p.adjoint);
  storeChunk(y + first, a, kChunk, true);
  storeChunk(y + second, b, kChunk, true);
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

/// The counters of a row's numbers but for the last word.
__device__ PhiloxNumbers dropoutRow(const DropoutParams &p, int64_t row) {
  Divided sample = divided(row, p.rowsPerSample);
  return {folded(load<int64_t>(p.state, 1)), folded(load<int64_t>(p.sampleIds, sample.whole)), folded(sample.rest), 0};
}

/// The numbers of four elements: counter (step, sample, row, position ÷ 4); the word is position % 4.
__device__ PhiloxNumbers dropoutNumbers(const DropoutParams &p, PhiloxNumbers counter, int64_t position) {
  counter.c[3] = folded(position >> 2);
  return philox(counter, folded(load<int64_t>(p.state, 0)), folded(p.stream));
}

__device__ __forceinline__ float dropped(const DropoutParams &p, uint32_t number, float x) {
  return static_cast<float>(number >> 8) * 0x1p-24f < p.ratio ? 0 : x * p.scale;
}

template <typename T> __device__ void dropout(const DropoutParams &p) {
  int64_t at = threadOfGrid() * p.perThread;
  if (at >= p.count)
    return;
  const T *x = static_cast<const T *>(p.x) + at;
  T *y = static_cast<T *>(p.y) + at;
  Divided place = divided(at, p.width);
  int64_t position = offsetOf(p.position, place.rest);
  if (p.perThread == kChunk) {
    Chunk chunk = loadChunk(x, kChunk, p.packed);
    PhiloxNumbers counter = dropoutRow(p, place.whole);
#pragma unroll
    for (int half = 0; half < kChunk; half += 4) {
      PhiloxNumbers numbers = dropoutNumbers(p, counter, position + half);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        chunk.v[half + i] = dropped(p, numbers.c[i], chunk.v[half + i]);
    }
    storeChunk(y, chunk, kChunk, p.packed);
    return;
  }
  PhiloxNumbers numbers = dropoutNumbers(p, dropoutRow(p, place.whole), position);
  uint32_t word =
      position & 2 ? (position & 1 ? numbers.c[3] : numbers.c[2]) : (position & 1 ? numbers.c[1] : numbers.c[0]);
  *y = fromFloat<T>(dropped(p, word, toFloat(*x)));
}

} // namespace

#define KERNELS(X)                                                                                                     \
  X(rope_f32, RopeParams, rope<float>)                                                                                 \
  X(rope_bf16, RopeParams, rope<Bf16>)                                                                                 \
  X(rope_packed_f32_f32, RopeParams, (ropePacked<float, float>))                                                       \
  X(rope_packed_f32_bf16, RopeParams, (ropePacked<float, Bf16>))                                                       \
  X(rope_packed_bf16_f32, RopeParams, (ropePacked<Bf16, float>))                                                       \
  X(rope_packed_bf16_bf16, RopeParams, (ropePacked<Bf16, Bf16>))                                                       \
  X(dropout_f32, DropoutParams, dropout<float>)                                                                        \
  X(dropout_bf16, DropoutParams, dropout<Bf16>)

MAESTRO_KERNELS(position, KERNELS)
#undef KERNELS

} // namespace maestro::kernels::cuda
