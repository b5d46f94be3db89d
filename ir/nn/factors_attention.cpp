// Factor rules of attention, where query heads are key heads times the group that shares one, and of rotary embeddings.
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

using llvm::ArrayRef;

FactorRule RopeOp::getFactorRule() {
  RuleBuilder builder(*this);
  TensorFactors x = builder.factors(builder.operandShape(0).drop_back(1));
  x.push_back(builder.factor(builder.operandShape(0).back(), FactorKind::Whole));
  builder.operand(0) = builder.result(0) = x;
  for (unsigned i : {1u, 2u})
    builder.operand(i) = RuleBuilder::broadcast(x, builder.operandShape(i));
  return builder.take();
}

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

} // namespace maestro::nn
