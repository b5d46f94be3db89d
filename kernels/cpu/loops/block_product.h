// Products of blocks that lie in the caches: C[m, n] (+)= A[m, k] · B[k, n].
//
// A's elements are broadcast, so A may have any strides (a transposed A costs nothing); B's rows are
// read as vectors, so they are contiguous, and n is a multiple of a vector. Nothing is packed.
#pragma once

#include "kernels/cpu/loops/simd.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {

struct BlockOperands {
  const float *a;
  int64_t aRow, aColumn;
  const float *b;
  int64_t bRow;
  float *c;
  int64_t cRow;
};

/// A tile of C with `rows` × `vectors`·kLanes elements, held in registers over the whole of k.
template <int rows, int vectors, bool accumulate>
MAESTRO_INLINE void tileProduct(const BlockOperands &p, int64_t m, int64_t n, int64_t depth) {
  Floats sums[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v)
      sums[r][v] = accumulate ? load(p.c + (m + r) * p.cRow + n + v * kLanes) : Floats{};
  const float *a = p.a + m * p.aRow, *b = p.b + n;
  for (int64_t k = 0; k < depth; ++k, a += p.aColumn, b += p.bRow) {
    Floats row[vectors];
    for (int v = 0; v < vectors; ++v)
      row[v] = load(b + v * kLanes);
    for (int r = 0; r < rows; ++r) {
      Floats factor = splat(a[r * p.aRow]);
      for (int v = 0; v < vectors; ++v)
        sums[r][v] += factor * row[v];
    }
  }
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v)
      store(p.c + (m + r) * p.cRow + n + v * kLanes, sums[r][v]);
}

#ifdef __AVX512F__
inline constexpr int kTileRows = 6, kTileVectors = 4;
#else
inline constexpr int kTileRows = 4, kTileVectors = 2;
#endif

template <int vectors, bool accumulate>
__attribute__((noinline)) static void columnProduct(const BlockOperands &p, int64_t rows, int64_t n,
                                                    int64_t depth) {
  int64_t m = 0;
  for (; m + kTileRows <= rows; m += kTileRows)
    tileProduct<kTileRows, vectors, accumulate>(p, m, n, depth);
  if (rows - m >= 4 && kTileRows > 4) {
    tileProduct<4, vectors, accumulate>(p, m, n, depth);
    m += 4;
  }
  if (rows - m >= 2) {
    tileProduct<2, vectors, accumulate>(p, m, n, depth);
    m += 2;
  }
  if (m < rows)
    tileProduct<1, vectors, accumulate>(p, m, n, depth);
}

template <bool accumulate>
MAESTRO_INLINE void blockProduct(const BlockOperands &p, int64_t rows, int64_t columns, int64_t depth) {
  int64_t n = 0;
  for (; n + kTileVectors * kLanes <= columns; n += kTileVectors * kLanes)
    columnProduct<kTileVectors, accumulate>(p, rows, n, depth);
  if (kTileVectors > 2)
    for (; n + 2 * kLanes <= columns; n += 2 * kLanes)
      columnProduct<2, accumulate>(p, rows, n, depth);
  if (n < columns)
    columnProduct<1, accumulate>(p, rows, n, depth);
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA
