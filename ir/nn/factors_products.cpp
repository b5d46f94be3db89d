// Factor rules of matrix products and convolutions.
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

// A bias would be added once per part of a split sum, so with a bias the summed factor stays whole; passes
// that want to split it take the bias out first.
static FactorKind sumKind(bool hasBias) { return hasBias ? FactorKind::Whole : FactorKind::ReduceSum; }

/// matmul's, and that of what has its operands first. `added`: something is added to the products.
template <typename Op> static FactorRule matmulRule(Op op, bool added, llvm::ArrayRef<unsigned> alike) {
  RuleBuilder builder(op);
  llvm::ArrayRef<DimExpr> a = builder.operandShape(0), b = builder.operandShape(1);
  TensorFactors result = builder.factors(builder.resultShape(0));
  DimFactors rows = result[result.size() - 2], columns = result.back();
  DimFactors inner = builder.factor(op.getTransposeA() ? a[a.size() - 2] : a.back(), sumKind(added));
  llvm::ArrayRef<DimFactors> leading = llvm::ArrayRef<DimFactors>(result).drop_back(2);
  auto operand = [&](llvm::ArrayRef<DimExpr> shape, DimFactors first, DimFactors second, bool swap) {
    TensorFactors factors = RuleBuilder::broadcast(leading, shape.drop_back(2));
    factors.push_back(swap ? second : first);
    factors.push_back(swap ? first : second);
    return factors;
  };
  builder.operand(0) = operand(a, rows, inner, op.getTransposeA());
  builder.operand(1) = operand(b, inner, columns, op.getTransposeB());
  for (unsigned i : alike)
    builder.operand(i) = result;
  if (op.getBias())
    builder.operand(op->getNumOperands() - 1)[0] = columns;
  builder.result(0) = result;
  return builder.take();
}

FactorRule MatmulOp::getFactorRule() { return matmulRule(*this, bool(getBias()), {}); }
FactorRule MatmulAddOp::getFactorRule() { return matmulRule(*this, true, {2}); }

//===----------------------------------------------------------------------===//
// Convolution: x[N, g·c, …], w[g·m, c, …], y[N, g·m, …]
//===----------------------------------------------------------------------===//

namespace {
struct ConvKinds {
  FactorKind batch = FactorKind::Parallel;
  FactorKind inChannels = FactorKind::Parallel;
  FactorKind outChannels = FactorKind::Parallel;
};
struct ConvFactors {
  TensorFactors x, w, y;
};
} // namespace

static DimFactors joined(DimFactors outer, const DimFactors &inner) {
  outer.append(inner);
  return outer;
}

static ConvFactors convFactors(RuleBuilder &builder, llvm::ArrayRef<DimExpr> x, llvm::ArrayRef<DimExpr> w,
                               llvm::ArrayRef<DimExpr> y, int64_t group, ConvKinds kinds) {
  DimFactors batch = builder.factor(x[0], kinds.batch);
  DimFactors groups = builder.factor(group);
  DimFactors in = builder.factor(w[1], kinds.inChannels);
  DimFactors out = builder.factor(w[0].exactQuotient(group).value_or(w[0]), kinds.outChannels);
  ConvFactors factors;
  factors.x = {batch, joined(groups, in)};
  factors.w = {joined(groups, out), in};
  factors.y = {batch, joined(groups, out)};
  factors.x.append(builder.spatial(x));
  factors.w.append(builder.spatial(w));
  factors.y.append(builder.spatial(y));
  return factors;
}

FactorRule ConvOp::getFactorRule() {
  RuleBuilder builder(*this);
  ConvKinds kinds;
  kinds.inChannels = sumKind(bool(getBias()));
  ConvFactors factors =
      convFactors(builder, builder.operandShape(0), builder.operandShape(1), builder.resultShape(0), getGroup(), kinds);
  builder.operand(0) = factors.x;
  builder.operand(1) = factors.w;
  if (getBias())
    builder.operand(2)[0] = factors.w[0];
  builder.result(0) = factors.y;
  return builder.take();
}

FactorRule ConvGradInputOp::getFactorRule() {
  RuleBuilder builder(*this);
  ConvKinds kinds;
  kinds.outChannels = FactorKind::ReduceSum;
  ConvFactors factors =
      convFactors(builder, builder.resultShape(0), builder.operandShape(1), builder.operandShape(0), getGroup(), kinds);
  builder.operand(0) = factors.y;
  builder.operand(1) = factors.w;
  builder.result(0) = factors.x;
  return builder.take();
}

FactorRule ConvGradWeightOp::getFactorRule() {
  RuleBuilder builder(*this);
  ConvKinds kinds;
  kinds.batch = FactorKind::ReduceSum;
  ConvFactors factors =
      convFactors(builder, builder.operandShape(0), builder.resultShape(0), builder.operandShape(1), getGroup(), kinds);
  builder.operand(0) = factors.x;
  builder.operand(1) = factors.y;
  builder.result(0) = factors.w;
  return builder.take();
}

} // namespace maestro::nn
