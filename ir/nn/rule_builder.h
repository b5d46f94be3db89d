// Builds factor rules. Private to ir/nn/factors_*.cpp.
#pragma once

#include "ir/nn/nn.h"

namespace maestro::nn {

/// Fills a rule dim by dim. Dims that nobody sets, and all dims of size 1, carry no factor.
class RuleBuilder {
public:
  explicit RuleBuilder(mlir::Operation *op) : op(op) {
    for (mlir::Value operand : op->getOperands())
      rule.operandDims.emplace_back(typeOf(operand).getRank());
    for (mlir::Value result : op->getResults())
      rule.resultDims.emplace_back(typeOf(result).getRank());
  }

  TensorFactors &operand(unsigned index) { return rule.operandDims[index]; }
  TensorFactors &result(unsigned index) { return rule.resultDims[index]; }
  llvm::ArrayRef<DimExpr> operandShape(unsigned index) const { return typeOf(op->getOperand(index)).getShape(); }
  llvm::ArrayRef<DimExpr> resultShape(unsigned index) const { return typeOf(op->getResult(index)).getShape(); }

  /// A factor of its own for a dim; none for size 1.
  DimFactors factor(const DimExpr &size, FactorKind kind = FactorKind::Parallel) {
    if (size.isConstant(1))
      return {};
    return {rule.addFactor(size, kind)};
  }
  /// One factor per dim of `shape`.
  TensorFactors factors(llvm::ArrayRef<DimExpr> shape, FactorKind kind = FactorKind::Parallel) {
    TensorFactors tensor;
    for (const DimExpr &dim : shape)
      tensor.push_back(factor(dim, kind));
    return tensor;
  }
  /// Those of the spatial dims of [N, C, spatial…], which stay whole: neighbouring windows overlap.
  TensorFactors spatial(llvm::ArrayRef<DimExpr> shape) { return factors(shape.drop_front(2), FactorKind::Whole); }
  /// `full`, the factors of a tensor, as an operand carries them that broadcasts to it.
  static TensorFactors broadcast(llvm::ArrayRef<DimFactors> full, llvm::ArrayRef<DimExpr> shape) {
    TensorFactors tensor(full.take_back(shape.size()));
    for (auto [dim, factors] : llvm::zip(shape, tensor))
      if (dim.isConstant(1))
        factors.clear();
    return tensor;
  }
  /// A dim with another factor for operand and result: what cannot be related is whole on both sides.
  void unrelated(unsigned operandIndex, unsigned operandDim, unsigned resultIndex, unsigned resultDim) {
    operand(operandIndex)[operandDim] = factor(operandShape(operandIndex)[operandDim], FactorKind::Whole);
    result(resultIndex)[resultDim] = factor(resultShape(resultIndex)[resultDim], FactorKind::Whole);
  }

  FactorRule take() { return std::move(rule); }

private:
  mlir::Operation *op;
  FactorRule rule;
};

} // namespace maestro::nn
