// Products of blocks that lie in the caches: C[m, n] (+)= A[m, k] · B[k, n].
//
// A's elements are broadcast, so A may have any strides (a transposed A costs nothing); B's rows are
// read as whole vectors, so they are contiguous and reach to the next multiple of a vector. Nothing is packed.
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
  const float *base = nullptr; ///< What is added to, of C's shape: C itself, or a row for all (a stride of 0).
  int64_t baseRow = 0;
};

/// A tile of C with `rows` × `vectors`·kLanes elements, held in registers over the whole of k. `part`: of a vector, of
/// which C has `columns` elements.
template <int rows, int vectors, bool accumulate, bool part>
MAESTRO_INLINE void tileProduct(const BlockOperands &p, int64_t m, int64_t n, int64_t depth, int64_t columns) {
  Floats sums[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = Floats{};
      if constexpr (accumulate) {
        const float *base = p.base + (m + r) * p.baseRow + n + v * kLanes;
        sums[r][v] = part ? loadPart(base, columns) : load(base);
      }
    }
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
      if (float *c = p.c + (m + r) * p.cRow + n + v * kLanes; part)
        storePart(c, sums[r][v], columns);
      else
        store(c, sums[r][v]);
}

#ifdef __AVX512F__
inline constexpr int kTileRows = 6, kTileVectors = 4;
#else
inline constexpr int kTileRows = 4, kTileVectors = 2;
#endif

template <int vectors, bool accumulate, bool part = false>
__attribute__((noinline)) static void columnProduct(const BlockOperands &p, int64_t rows, int64_t n, int64_t depth,
                                                    int64_t columns = 0) {
  int64_t m = 0;
  for (; m + kTileRows <= rows; m += kTileRows)
    tileProduct<kTileRows, vectors, accumulate, part>(p, m, n, depth, columns);
  if (rows - m >= 4 && kTileRows > 4) {
    tileProduct<4, vectors, accumulate, part>(p, m, n, depth, columns);
    m += 4;
  }
  if (rows - m >= 2) {
    tileProduct<2, vectors, accumulate, part>(p, m, n, depth, columns);
    m += 2;
  }
  if (m < rows)
    tileProduct<1, vectors, accumulate, part>(p, m, n, depth, columns);
}

/// Whole vectors of C; the rest of its columns, fewer than a vector, is the caller's.
template <bool accumulate>
MAESTRO_INLINE void blockProduct(const BlockOperands &p, int64_t rows, int64_t columns, int64_t depth) {
  int64_t n = 0;
  for (; n + kTileVectors * kLanes <= columns; n += kTileVectors * kLanes)
    columnProduct<kTileVectors, accumulate>(p, rows, n, depth);
  if (kTileVectors > 2)
    for (; n + 2 * kLanes <= columns; n += 2 * kLanes)
      columnProduct<2, accumulate>(p, rows, n, depth);
  if (n + kLanes <= columns)
    columnProduct<1, accumulate>(p, rows, n, depth);
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA
