// Walking a row in groups of one vector, the last one partial.
#pragma once

#include "kernels/cpu/loops/math.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {

/// Calls visit(first, lanes) for each group of kLanes elements; the last group may have fewer lanes.
/// Lanes beyond the end are 0, so sums need no correction.
template <typename Visit> MAESTRO_INLINE void forEachGroup(int64_t n, Visit visit) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    visit(i, kLanes);
  if (i < n)
    visit(i, n - i);
}
template <typename T> MAESTRO_INLINE Floats loadGroup(const T *p, int64_t lanes) {
  return lanes == kLanes ? load(p) : loadPart(p, lanes);
}
template <typename T> MAESTRO_INLINE void storeGroup(T *p, Floats v, int64_t lanes) {
  if (lanes == kLanes)
    store(p, v);
  else
    storePart(p, v, lanes);
}
/// v with `rest` behind the first `lanes` lanes.
MAESTRO_INLINE Floats keep(Floats v, int64_t lanes, float rest = 0) {
  Ints index;
  for (int32_t i = 0; i < static_cast<int32_t>(kLanes); ++i)
    index[i] = i;
  return lanes == kLanes ? v : index < static_cast<int32_t>(lanes) ? v : splat(rest);
}

/// Σ term(i, lanes); four sums side by side hide the latency of additions.
template <typename Term> MAESTRO_INLINE float sumOf(int64_t n, Term term) {
  Floats a{}, b{}, c{}, d{};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a += term(i, kLanes);
    b += term(i + kLanes, kLanes);
    c += term(i + 2 * kLanes, kLanes);
    d += term(i + 3 * kLanes, kLanes);
  }
  for (; i + kLanes <= n; i += kLanes)
    a += term(i, kLanes);
  if (i < n)
    b += term(i, n - i);
  return sum((a + b) + (c + d));
}

} // namespace maestro::kernels::cpu::MAESTRO_ISA
