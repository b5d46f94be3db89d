// What the raising passes look for, in a form that reads like the formula. Private to passes/raise_*.cpp.
#pragma once

#include "ir/nn/nn.h"

#include <optional>

namespace maestro::raise {

/// Whether `value` is that constant, but for f32 rounding.
bool isUniform(mlir::Value value, double expected);

/// The other operand of a commutative operator when one of them is a uniform constant.
struct WithConstant {
  mlir::Value other;
  double constant = 0;
};
template <typename OpTy> std::optional<WithConstant> withConstant(mlir::Value value) {
  auto op = value.getDefiningOp<OpTy>();
  if (!op)
    return std::nullopt;
  if (auto constant = nn::constantValue(op.getRhs()))
    return WithConstant{op.getLhs(), *constant};
  if (auto constant = nn::constantValue(op.getLhs()))
    return WithConstant{op.getRhs(), *constant};
  return std::nullopt;
}

/// x·c, c·x or x÷c as (x, factor); (value, 1) otherwise.
WithConstant scaledValue(mlir::Value value);

/// The operand seen through casts that change nothing the result could notice (f32 to f32 folds away on
/// its own; bf16 to f32 is exact).
mlir::Value throughWidening(mlir::Value value);

inline llvm::ArrayRef<DimExpr> shapeOf(mlir::Value value) { return nn::typeOf(value).getShape(); }
inline int64_t rankOf(mlir::Value value) { return static_cast<int64_t>(shapeOf(value).size()); }
inline mlir::Type elementOf(mlir::Value value) { return nn::typeOf(value).getElementType(); }

/// The pair (a, b) of a commutative operator with `matches(a, b)`, tried in both orders.
template <typename OpTy, typename Matches>
std::optional<std::pair<mlir::Value, mlir::Value>> inEitherOrder(OpTy op, Matches matches) {
  if (matches(op.getLhs(), op.getRhs()))
    return std::make_pair(op.getLhs(), op.getRhs());
  if (matches(op.getRhs(), op.getLhs()))
    return std::make_pair(op.getRhs(), op.getLhs());
  return std::nullopt;
}

} // namespace maestro::raise
