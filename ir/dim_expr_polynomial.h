// What the three sources of DimExpr share: the interned representation, and intervals. Private to ir/dim_expr*.
#pragma once

#include "ir/dim_expr.h"

namespace maestro {

/// Terms in canonical order: by degree, then by atoms; no zero coefficients; no terms for 0.
struct DimExpr::Polynomial {
  std::vector<Term> terms;
  size_t hash = 0;
};

struct DimExpr::Builder {
  /// `terms` must be canonical.
  static DimExpr intern(std::vector<Term> terms);
  static DimExpr fromTerms(std::vector<Term> terms);
  static DimExpr fromAtom(AtomKind kind, const DimExpr &lhs, const DimExpr &rhs);
};

/// Bounds of a value, both ends included; ±kInfinite where there is none.
struct Interval {
  __int128 lo, hi;
  static constexpr __int128 kInfinite = __int128(1) << 120;
};

/// Symbols lie in what `intervalOf` answers.
Interval intervalOf(const DimExpr &expr, const std::function<Interval(std::string_view)> &symbolInterval);
/// Every symbol lies in [0, kMaxSymbol].
Interval sizeInterval(const DimExpr &expr);

} // namespace maestro
