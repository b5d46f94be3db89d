// A product of two matrices in f32 as the loops see it: pointers and strides in elements.
#pragma once

#include <cstdint>

namespace maestro::kernels::cpu {

/// c[m, n] = a[m, k] · b[k, n], plus what is there already, or plus a row.
struct ProductCall {
  static constexpr int64_t kPanelColumns = 64, kPanelDepth = 384;
  static constexpr int64_t kScratchFloats = kPanelColumns * kPanelDepth; ///< Per caller.

  int64_t k;
  const float *a;
  int64_t aRow, aColumn;
  const float *b;
  int64_t bRow, bColumn; ///< One of them is 1.
  float *c;
  int64_t cRow;
  bool adds;         ///< To c.
  const float *bias; ///< n elements, or null; not where it adds.
};

/// A part of c.
struct ProductPart {
  int64_t rowBegin, rowEnd, columnBegin, columnEnd;
};

} // namespace maestro::kernels::cpu
