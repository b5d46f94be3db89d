// What the parts of the lower bound share.
#pragma once

#include "wavefront/lower_bound.h"

#include <algorithm>
#include <limits>

namespace maestro::wavefront {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

inline bool hasSummedDim(const std::vector<Dim> &dims, const CostTerm &term) {
  return std::any_of(term.dims.begin(), term.dims.end(), [&](uint32_t dim) { return dims[dim].sum; });
}

/// Saturates far above any sum that check() lets through, far below overflow.
inline int64_t termPs(const CostTerm &term, const int64_t *dims) {
  int64_t value = term.picoseconds;
  for (uint32_t dim : term.dims)
    if (dims[dim] == 0)
      return 0;
  for (uint32_t dim : term.dims)
    if (__builtin_mul_overflow(value, dims[dim], &value))
      return kNever;
  return value;
}

/// Rounding down keeps a bound a bound; saturated sums are bounds too.
inline int64_t addSaturated(int64_t left, int64_t right) {
  return __builtin_add_overflow(left, right, &left) ? kNever : left;
}

} // namespace maestro::wavefront
