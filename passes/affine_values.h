// Integers that are known position by position: constant + Σ coefficient · index. What exporters compute masks from.
#pragma once

#include "ir/nn/nn.h"

#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace maestro {

struct AffineValue {
  int64_t constant = 0;
  llvm::SmallVector<int64_t> coefficients; ///< By dim of the tensor; 0 for dims of size 1.

  bool isConstant() const {
    return llvm::all_of(coefficients, [](int64_t each) { return each == 0; });
  }
};

/// Affine values of one function; each is looked for once. Truth values are 0 and 1.
class AffineValues {
public:
  /// Nothing where the value is not an integer's, depends on data, or is not known to be affine.
  std::optional<AffineValue> of(mlir::Value value);
  /// a + factor · b, broadcast to `shape`.
  static AffineValue sum(const AffineValue &a, const AffineValue &b, int64_t factor, llvm::ArrayRef<DimExpr> shape);

private:
  std::optional<AffineValue> compute(mlir::Operation *op, mlir::Value value);
  std::optional<AffineValue> ofReshape(nn::ReshapeOp op);
  std::optional<AffineValue> ofSlice(nn::SliceOp op);
  std::optional<AffineValue> ofConcat(nn::ConcatOp op);
  std::optional<AffineValue> ofGather(nn::GatherNDOp op);

  llvm::DenseMap<mlir::Value, std::optional<AffineValue>> known;
};

} // namespace maestro
