// Factor rules of softmax, norms, rotary embeddings, attention, dropout and losses.
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

FactorRule RopeOp::getFactorRule() {
  RuleBuilder builder(*this);
  TensorFactors x = builder.factors(builder.operandShape(0).drop_back(1));
  x.push_back(builder.factor(builder.operandShape(0).back(), FactorKind::Whole));
  builder.operand(0) = builder.result(0) = x;
  for (unsigned i : {1u, 2u})
    builder.operand(i) = RuleBuilder::broadcast(x, builder.operandShape(i));
  return builder.take();
}

//===----------------------------------------------------------------------===//
// Attention: query heads are key heads times the group that shares one
//===----------------------------------------------------------------------===//

namespace {
struct AttentionFactors {
  TensorFactors q, k, v, o, lse, scores;
};
} // namespace

/// `shared` is the kind of what dk and dv lack: queries and the group. Under a causal mask, positions of queries
/// matter: they stay whole.
static AttentionFactors attentionFactors(RuleBuilder &builder, ArrayRef<DimExpr> q, ArrayRef<DimExpr> k,
                                         ArrayRef<DimExpr> v, bool sequenceMajor, bool causal, FactorKind shared) {
  unsigned head = sequenceMajor ? 2 : 1, position = sequenceMajor ? 1 : 2;
  DimFactors batch = builder.factor(q[0]), keyHeads = builder.factor(k[head]);
  DimFactors heads = keyHeads;
  heads.append(builder.factor(q[head].exactQuotient(k[head]).value_or(1), shared));
  DimFactors queries = builder.factor(q[position], causal ? FactorKind::Whole : shared);
  DimFactors keys = builder.factor(k[position], FactorKind::Whole);
  DimFactors depth = builder.factor(q[3], FactorKind::Whole);
  DimFactors valueDepth = builder.factor(v[3], FactorKind::Whole);
  auto layOut = [&](const DimFactors &h, const DimFactors &p, const DimFactors &d) {
    return sequenceMajor ? TensorFactors{batch, p, h, d} : TensorFactors{batch, h, p, d};
  };
  return {layOut(heads, queries, depth),      layOut(keyHeads, keys, depth), layOut(keyHeads, keys, valueDepth),
          layOut(heads, queries, valueDepth), {batch, heads, queries},       {batch, heads, queries, keys}};
}

FactorRule AttentionOp::getFactorRule() {
  RuleBuilder builder(*this);
  AttentionFactors factors =
      attentionFactors(builder, builder.operandShape(0), builder.operandShape(1), builder.operandShape(2),
                       getSequenceMajor(), getCausal(), FactorKind::Parallel);
  builder.operand(0) = factors.q;
  builder.operand(1) = factors.k;
  builder.operand(2) = factors.v;
  if (getMask())
    builder.operand(3) = RuleBuilder::broadcast(factors.scores, builder.operandShape(3));
  builder.result(0) = factors.o;
  builder.result(1) = factors.lse;
  return builder.take();
}

FactorRule AttentionGradOp::getFactorRule() {
  RuleBuilder builder(*this);
  AttentionFactors factors =
      attentionFactors(builder, builder.operandShape(1), builder.operandShape(2), builder.operandShape(3),
                       getSequenceMajor(), getCausal(), FactorKind::ReduceSum);
  builder.operand(0) = builder.operand(4) = factors.o;
  builder.operand(1) = builder.result(0) = factors.q;
  builder.operand(2) = builder.result(1) = factors.k;
  builder.operand(3) = builder.result(2) = factors.v;
  builder.operand(5) = factors.lse;
  if (getMask())
    builder.operand(6) = RuleBuilder::broadcast(factors.scores, builder.operandShape(6));
  return builder.take();
}

//===----------------------------------------------------------------------===//
// Dropout: rows belong to samples; what is dropped depends on the position in the sample
//===----------------------------------------------------------------------===//

FactorRule DropoutOp::getFactorRule() {
  RuleBuilder builder(*this);
  const DimExpr &rows = builder.operandShape(0)[0], &samples = builder.operandShape(2)[0];
  std::optional<DimExpr> rowsPerSample = rows.exactQuotient(samples);
  TensorFactors x = builder.factors(builder.operandShape(0), FactorKind::Whole);
  if (rowsPerSample) {
    builder.operand(2)[0] = builder.factor(samples);
    x[0] = builder.operand(2)[0];
    x[0].append(builder.factor(*rowsPerSample, FactorKind::Whole));
  } else {
    builder.operand(2)[0] = builder.factor(samples, FactorKind::Whole);
  }
  builder.operand(1) = builder.factors(builder.operandShape(1), FactorKind::Whole);
  builder.operand(0) = builder.result(0) = x;
  return builder.take();
}

//===----------------------------------------------------------------------===//
// Losses: positions are independent, classes stay whole
//===----------------------------------------------------------------------===//

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
