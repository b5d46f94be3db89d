// Factor rules of pooling.
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

/// Rows and channels are independent; all tensors share them.
static FactorRule poolRule(mlir::Operation *op) {
  RuleBuilder builder(op);
  TensorFactors shared = builder.factors(builder.resultShape(0).take_front(2));
  auto carry = [&](TensorFactors &factors, llvm::ArrayRef<DimExpr> shape) {
    factors = shared;
    factors.append(builder.spatial(shape));
  };
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    carry(builder.operand(i), builder.operandShape(i));
  carry(builder.result(0), builder.resultShape(0));
  return builder.take();
}

FactorRule MaxPoolOp::getFactorRule() { return poolRule(*this); }
FactorRule AvgPoolOp::getFactorRule() { return poolRule(*this); }
FactorRule MaxPoolGradOp::getFactorRule() { return poolRule(*this); }
FactorRule AvgPoolGradOp::getFactorRule() { return poolRule(*this); }

} // namespace maestro::nn
