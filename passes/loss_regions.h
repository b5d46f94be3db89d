// What may be done over chunks of rows: of a last product before a loss, where it is wider than what it multiplies, all
// that read, or are read beside, values of its width. By factor rules (ir/nn/factor_rule.h) each operator must keep the
// rows or sum over them. Internal to passes/; what is done with it: chunk_losses.cpp.
#pragma once

#include "passes/graph_functions.h"

#include "llvm/ADT/SetVector.h"

#include <optional>
#include <vector>

namespace maestro {

/// So many leading dims of the value are the rows, and the others are fixed; nothing where that is not so.
std::optional<unsigned> rowRank(mlir::Value value, const DimExpr &rows);

/// What an operator does to rows.
enum class RowRole { None, Keeps, Sums };
/// All tensors carry the rows' factors as their leading dims, in order, or not at all.
RowRole roleOf(mlir::Operation *op, const DimExpr &rows);

/// The operators behind one or several heads that are done over chunks.
struct LossRegion {
  DimExpr rows;
  int64_t widening = 1; ///< The first head's result has so many times the elements of what it multiplies.
  int64_t narrow = 0;   ///< Rows of so many elements may leave: half a head's result, or what it multiplies.
  llvm::SetVector<mlir::Operation *> ops;
};

/// Of a section's @step; the last heads first.
std::vector<LossRegion> findLossRegions(mlir::func::FuncOp step);

} // namespace maestro
