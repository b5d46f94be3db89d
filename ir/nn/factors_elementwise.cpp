// Factor rules of elementwise operators and constants.
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

FactorRule elementwiseFactorRule(mlir::Operation *op) {
  RuleBuilder builder(op);
  builder.result(0) = builder.factors(builder.resultShape(0));
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    builder.operand(i) = RuleBuilder::broadcast(builder.result(0), builder.operandShape(i));
  return builder.take();
}

FactorRule GluGradOp::getFactorRule() {
  RuleBuilder builder(*this);
  TensorFactors shared = builder.factors(builder.resultShape(0));
  for (unsigned i = 0; i < getNumOperands(); ++i)
    builder.operand(i) = shared;
  builder.result(0) = builder.result(1) = shared;
  return builder.take();
}

static FactorRule wholeResult(mlir::Operation *op) {
  RuleBuilder builder(op);
  builder.result(0) = builder.factors(builder.resultShape(0), FactorKind::Whole);
  return builder.take();
}

FactorRule ConstantOp::getFactorRule() { return wholeResult(*this); }
FactorRule IotaOp::getFactorRule() { return wholeResult(*this); }
FactorRule DimValuesOp::getFactorRule() { return wholeResult(*this); }
FactorRule FillOp::getFactorRule() { return elementwiseFactorRule(*this); }

} // namespace maestro::nn
