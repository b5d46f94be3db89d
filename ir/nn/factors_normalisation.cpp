// Factor rules of softmax and norms.
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

/// All tensors have one shape; `axis` stays whole.
static FactorRule softmaxRule(mlir::Operation *op, unsigned axis) {
  RuleBuilder builder(op);
  TensorFactors shared = builder.factors(builder.resultShape(0));
  shared[axis] = builder.factor(builder.resultShape(0)[axis], FactorKind::Whole);
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    builder.operand(i) = shared;
  builder.result(0) = shared;
  return builder.take();
}

FactorRule SoftmaxOp::getFactorRule() { return softmaxRule(*this, getAxis()); }
FactorRule LogSoftmaxOp::getFactorRule() { return softmaxRule(*this, getAxis()); }
FactorRule SoftmaxGradOp::getFactorRule() { return softmaxRule(*this, getAxis()); }
FactorRule LogSoftmaxGradOp::getFactorRule() { return softmaxRule(*this, getAxis()); }

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Every tensor of a norm has x's shape, the outer dims (statistics) or the inner ones (parameters). Ranks
/// alone do not tell outer from inner, hence the lists.
static FactorRule normRule(mlir::Operation *op, unsigned axis, unsigned xOperand, FactorKind outer,
                           ArrayRef<char> operands, ArrayRef<char> results) {
  RuleBuilder builder(op);
  ArrayRef<DimExpr> x = builder.operandShape(xOperand);
  TensorFactors full = builder.factors(x.take_front(axis), outer);
  full.append(builder.factors(x.drop_front(axis), FactorKind::Whole));
  auto part = [&](char which) {
    ArrayRef<DimFactors> all = full;
    return TensorFactors(which == 'x' ? all : which == 'o' ? all.take_front(axis) : all.drop_front(axis));
  };
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    builder.operand(i) = part(operands[i]);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    builder.result(i) = part(results[i]);
  return builder.take();
}

FactorRule LayerNormOp::getFactorRule() {
  return normRule(*this, getAxis(), 0, FactorKind::Parallel, {'x', 'i', 'i'}, {'x', 'o', 'o'});
}
FactorRule LayerNormGradOp::getFactorRule() {
  return normRule(*this, getAxis(), 1, FactorKind::ReduceSum, {'x', 'x', 'o', 'o', 'i'}, {'x', 'i', 'i'});
}
FactorRule RmsNormOp::getFactorRule() {
  return normRule(*this, getAxis(), 0, FactorKind::Parallel, {'x', 'i'}, {'x', 'o'});
}
FactorRule RmsNormGradOp::getFactorRule() {
  return normRule(*this, getAxis(), 1, FactorKind::ReduceSum, {'x', 'x', 'o', 'i'}, {'x', 'i'});
}

} // namespace maestro::nn
