// How large integers may be: those that a graph computes (a table of 128 positions bounds `seq`), and those that it is
// given (ids that index an embedding).
#pragma once

#include "ir/nn/nn.h"

#include <optional>

namespace maestro::planner {

/// A bound (inclusive) of an integer or bool tensor's values, in the graph's dims: seq − 1 for the positions of a
/// sequence. Nothing where the values are data. A field that is summed up along its positions is taken for a mask of 0
/// and 1.
std::optional<DimExpr> largestValue(mlir::Value value);

struct IndexRange {
  std::optional<int64_t> limit;   ///< Values must lie in [0, limit) …
  std::optional<int64_t> ignored; ///< … or be this one.
};

/// What a data field's integers may be, where what reads them tells: an embedding's rows, a loss's classes; also behind
/// casts, views, a constant shift (positions that start at 2), and where(v == c, other, v), which exempts c.
IndexRange indexRange(mlir::Value field);

} // namespace maestro::planner
