// Factor rules of losses: positions are independent, classes stay whole.
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

using llvm::ArrayRef;

/// The first `logits` operands have classes, the others broadcast to the positions.
static FactorRule lossRule(mlir::Operation *op, unsigned logits, bool resultHasClasses) {
  RuleBuilder builder(op);
  ArrayRef<DimExpr> shape = builder.operandShape(0);
  TensorFactors positions = builder.factors(shape.drop_back(1));
  TensorFactors full = positions;
  full.push_back(builder.factor(shape.back(), FactorKind::Whole));
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    builder.operand(i) = i < logits ? full : RuleBuilder::broadcast(positions, builder.operandShape(i));
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    builder.result(i) = resultHasClasses ? full : positions;
  return builder.take();
}

FactorRule CrossEntropyOp::getFactorRule() { return lossRule(*this, 1, false); }
FactorRule CrossEntropyGradOp::getFactorRule() { return lossRule(*this, 1, true); }
FactorRule KlDivergenceOp::getFactorRule() { return lossRule(*this, 2, false); }
FactorRule KlDivergenceGradOp::getFactorRule() { return lossRule(*this, 2, true); }

} // namespace maestro::nn
