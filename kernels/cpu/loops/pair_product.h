// Products of blocks of bf16 with sums in f32: C[m, n] (+)= A[m, k] · B[k, n], two steps of k at a time.
//
// A pair is a 32-bit word of two bf16 elements that are neighbours along k. A's pairs are broadcast and may
// have any strides; B's pairs lie along n: b[k ÷ 2][n]. As in block_product.h, nothing else is packed.
#pragma once

#include "kernels/cpu/loops/simd.h"

#ifdef __AVX512BF16__

namespace maestro::kernels::cpu::MAESTRO_ISA {

struct PairOperands {
  const uint32_t *a;
  int64_t aRow, aColumn;
  const uint32_t *b;
  int64_t bRow;
  float *c;
  int64_t cRow;
};

template <int rows, int vectors, bool accumulate>
MAESTRO_INLINE void pairTile(const PairOperands &p, int64_t m, int64_t n, int64_t pairs) {
  Floats sums[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v)
      sums[r][v] = accumulate ? load(p.c + (m + r) * p.cRow + n + v * kLanes) : Floats{};
  const uint32_t *a = p.a + m * p.aRow, *b = p.b + n;
  for (int64_t k = 0; k < pairs; ++k, a += p.aColumn, b += p.bRow) {
    __m512i row[vectors];
    for (int v = 0; v < vectors; ++v)
      row[v] = _mm512_loadu_si512(b + v * kLanes);
    for (int r = 0; r < rows; ++r) {
      uint32_t pair;
      __builtin_memcpy(&pair, a + r * p.aRow, sizeof pair); // Rows of bf16 need not be aligned to words.
      __m512i factor = _mm512_set1_epi32(static_cast<int>(pair));
      for (int v = 0; v < vectors; ++v)
        sums[r][v] = (Floats)_mm512_dpbf16_ps((__m512)sums[r][v], (__m512bh)factor, (__m512bh)row[v]);
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v)
      store(p.c + (m + r) * p.cRow + n + v * kLanes, sums[r][v]);
}

template <int vectors, bool accumulate>
__attribute__((noinline)) static void pairColumns(const PairOperands &p, int64_t rows, int64_t n, int64_t pairs) {
  int64_t m = 0;
  for (; m + 6 <= rows; m += 6)
    pairTile<6, vectors, accumulate>(p, m, n, pairs);
  if (rows - m >= 4) {
    pairTile<4, vectors, accumulate>(p, m, n, pairs);
    m += 4;
  }
  if (rows - m >= 2) {
    pairTile<2, vectors, accumulate>(p, m, n, pairs);
    m += 2;
  }
  if (m < rows)
    pairTile<1, vectors, accumulate>(p, m, n, pairs);
}

template <bool accumulate>
MAESTRO_INLINE void pairProduct(const PairOperands &p, int64_t rows, int64_t columns, int64_t pairs) {
  int64_t n = 0;
  for (; n + 4 * kLanes <= columns; n += 4 * kLanes)
    pairColumns<4, accumulate>(p, rows, n, pairs);
  for (; n + 2 * kLanes <= columns; n += 2 * kLanes)
    pairColumns<2, accumulate>(p, rows, n, pairs);
  if (n < columns)
    pairColumns<1, accumulate>(p, rows, n, pairs);
}

/// A pair from the low halves of two words.
MAESTRO_INLINE Words asPairs(Halves first, Halves second) {
  return __builtin_convertvector(first, Words) | __builtin_convertvector(second, Words) << 16;
}
MAESTRO_INLINE void storePairs(uint32_t *p, Words pairs) { __builtin_memcpy(p, &pairs, sizeof pairs); }
MAESTRO_INLINE Halves loadHalves(const BFloat16 *p, int64_t count) {
  Halves h{};
  __builtin_memcpy(&h, static_cast<const void *>(p), static_cast<size_t>(count) * sizeof(BFloat16));
  return h;
}

/// to[r ÷ 2][n] = (from[r][n], from[r + 1][n]): pairs along rows, zeros behind the last row and column.
MAESTRO_INLINE void packRows(uint32_t *to, int64_t toStride, const BFloat16 *from, int64_t fromStride, int64_t rows,
                             int64_t width) {
  for (int64_t r = 0; r < rows; r += 2, to += toStride, from += 2 * fromStride)
    for (int64_t n = 0; n < width; n += kLanes) {
      int64_t count = width - n < kLanes ? width - n : kLanes;
      Halves second = r + 1 < rows ? loadHalves(from + fromStride + n, count) : Halves{};
      storePairs(to + n, asPairs(loadHalves(from + n, count), second));
    }
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA

#endif
