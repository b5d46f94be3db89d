// Arithmetic of one element of a folded tensor; private to symbolic_*.cpp. Every function answers nothing where the
// result is not known exactly for all values of the dims.
#pragma once

#include "planner/import/symbolic_value.h"

namespace maestro::planner {

std::optional<double> numberOf(const FoldedElement &element);
std::optional<DimExpr> integerOf(const FoldedElement &element);
bool isComparison(FoldedBinary op);

/// a op b in `dtype`; comparisons yield 0 or 1.
std::optional<FoldedElement> combine(FoldedBinary op, DType dtype, const FoldedElement &a, const FoldedElement &b);
std::optional<FoldedElement> combineUnary(FoldedUnary op, DType dtype, const FoldedElement &x);
std::optional<FoldedElement> castElement(const FoldedElement &element, DType from, DType to);
/// Wraps to the type's width as integer arithmetic does; only constants can leave it.
FoldedElement wrapped(DType dtype, FoldedElement element);

} // namespace maestro::planner
