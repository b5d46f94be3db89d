// Factor rules of reductions, and of what runs along an axis.
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

using llvm::ArrayRef;

/// Operand 0 and result 0 have the same shape, and `axis` must stay whole.
static FactorRule alongAxis(mlir::Operation *op, int64_t axis) {
  RuleBuilder builder(op);
  builder.operand(0) = builder.factors(builder.operandShape(0));
  builder.operand(0)[axis] = builder.factor(builder.operandShape(0)[axis], FactorKind::Whole);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    builder.result(i) = builder.operand(0);
  return builder.take();
}

FactorRule CumsumOp::getFactorRule() { return alongAxis(*this, getAxis()); }

FactorRule TopKOp::getFactorRule() {
  RuleBuilder builder(*this);
  unsigned axis = getAxis();
  builder.operand(0) = builder.factors(builder.operandShape(0));
  builder.result(0) = builder.operand(0);
  builder.unrelated(0, axis, 0, axis);
  builder.result(1) = builder.result(0);
  return builder.take();
}

static FactorRule argRule(mlir::Operation *op, unsigned axis) {
  RuleBuilder builder(op);
  builder.operand(0) = builder.factors(builder.operandShape(0));
  builder.result(0) = builder.operand(0);
  builder.unrelated(0, axis, 0, axis);
  return builder.take();
}

FactorRule ArgMaxOp::getFactorRule() { return argRule(*this, getAxis()); }
FactorRule ArgMinOp::getFactorRule() { return argRule(*this, getAxis()); }

static FactorRule reduceRule(mlir::Operation *op, ArrayRef<int64_t> axes, bool keepdims, FactorKind kind) {
  RuleBuilder builder(op);
  unsigned to = 0;
  for (auto [dim, size] : llvm::enumerate(builder.operandShape(0))) {
    bool reduced = llvm::is_contained(axes, static_cast<int64_t>(dim));
    builder.operand(0)[dim] = builder.factor(size, reduced ? kind : FactorKind::Parallel);
    if (!reduced)
      builder.result(0)[to] = builder.operand(0)[dim];
    to += !reduced || keepdims;
  }
  return builder.take();
}

FactorRule ReduceSumOp::getFactorRule() { return reduceRule(*this, getAxes(), getKeepdims(), FactorKind::ReduceSum); }
FactorRule ReduceMaxOp::getFactorRule() { return reduceRule(*this, getAxes(), getKeepdims(), FactorKind::ReduceMax); }
FactorRule ReduceMinOp::getFactorRule() { return reduceRule(*this, getAxes(), getKeepdims(), FactorKind::ReduceMin); }
// A mean of parts is no sum of them: passes that split it write it as a sum first.
FactorRule ReduceMeanOp::getFactorRule() { return reduceRule(*this, getAxes(), getKeepdims(), FactorKind::Whole); }
FactorRule ReduceProdOp::getFactorRule() { return reduceRule(*this, getAxes(), getKeepdims(), FactorKind::Whole); }

} // namespace maestro::nn
