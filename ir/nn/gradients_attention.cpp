// Gradients of attention and rotary embeddings. q, k and v get theirs from one fused operator that recomputes the
// scores. A trained additive mask (T5's relative positions) is rare, and its gradient is as large as the scores: it is
// written out of plain operators here.
#include "ir/nn/gradients.h"

#include <limits>

using namespace mlir;

namespace maestro::nn {
namespace {

/// The pieces of one attention in head-major order, key heads repeated: [B, H, S, ·].
class ScoreGradient {
public:
  ScoreGradient(GradientBuilder &b, AttentionOp op) : b(b), op(op) {}

  /// p ⊙ (dp − Σ do ⊙ o): the gradient of the scores after the soft cap, f32.
  Value build(Value dOut) {
    Value out = headMajor(op.getO());
    dOut = headMajor(dOut);
    SmallVector<DimExpr> column(shapeOf(out).drop_back());
    column.push_back(DimExpr(1));
    Value dp = b.widened(scores(dOut, repeated(headMajor(op.getV()), shapeOf(out)[1])));
    Value dot = b.wideSum(b.emit<MulOp>(b.widened(dOut), b.widened(out)), {3});
    Value centred = b.emit<SubOp>(dp, b.reshape(dot, column));
    return b.emit<MulOp>(probabilities(column), centred);
  }

private:
  Value headMajor(Value value) {
    if (!op.getSequenceMajor())
      return value;
    return b.emit<TransposeOp>(value, ArrayRef<int64_t>{0, 2, 1, 3});
  }

  /// Each key head repeated for its group of query heads.
  Value repeated(Value value, const DimExpr &heads) {
    ArrayRef<DimExpr> shape = shapeOf(value);
    if (shape[1] == heads)
      return value;
    DimExpr group = *heads.exactQuotient(shape[1]);
    Type element = typeOf(value).getElementType();
    SmallVector<DimExpr> grouped{shape[0], shape[1], group, shape[2], shape[3]};
    Value column = b.reshape(value, {shape[0], shape[1], DimExpr(1), shape[2], shape[3]});
    Value spread = b.emit<BroadcastToOp>(TensorType::get(b.getContext(), grouped, element), column);
    return b.reshape(spread, {shape[0], heads, shape[2], shape[3]});
  }

  Value scores(Value left, Value right) {
    return b.emit<MatmulOp>(left, right, Value(), /*transpose_a=*/false, /*transpose_b=*/true);
  }

  Value probabilities(ArrayRef<DimExpr> column) {
    Value q = headMajor(op.getQ());
    Value s = b.widened(scores(q, repeated(headMajor(op.getK()), shapeOf(q)[1])));
    s = b.scaled(s, op.getScale().convertToDouble());
    if (double cap = op.getSoftcap().convertToDouble(); cap > 0)
      s = b.scaled(b.emit<TanhOp>(b.scaled(s, 1.0 / cap)), cap);
    s = b.emit<AddOp>(s, b.cast(op.getMask(), typeOf(s).getElementType()));
    Value lse = b.reshape(op.getLse(), column);
    Value p = b.emit<ExpOp>(b.emit<SubOp>(s, lse));
    Value zero = b.scalar(p, 0.0);
    Value nothing = b.emit<EqualOp>(lse, b.scalar(lse, -std::numeric_limits<double>::infinity()));
    p = b.emit<WhereOp>(nothing, zero, p);
    return op.getCausal() ? b.emit<WhereOp>(attended(shapeOf(s)), p, zero) : p;
  }

  /// j ≤ i + offset as [S, T].
  Value attended(ArrayRef<DimExpr> scoresShape) {
    auto positions = [&](const DimExpr &count, int64_t start) {
      auto type = TensorType::get(b.getContext(), {count}, b.getI64Type());
      return b.emit<IotaOp>(type, DimsAttr::get(b.getContext(), {DimExpr(start)}),
                            DimsAttr::get(b.getContext(), {DimExpr(1)}));
    };
    Value rows = positions(scoresShape[2], op.getCausalOffset());
    return b.emit<LessEqualOp>(positions(scoresShape[3], 0), b.reshape(rows, {scoresShape[2], DimExpr(1)}));
  }

  GradientBuilder &b;
  AttentionOp op;
};

} // namespace

MAESTRO_GRADIENT(AttentionOp) {
  operandGradients.assign(getNumOperands(), Value());
  if (resultGradients[1])
    return emitOpError() << "passes gradients through o only, not through lse";
  Value dOut = resultGradients[0];
  if (!dOut)
    return success();
  GradientBuilder b(*this, builder);
  if (needed[0] || needed[1] || needed[2]) {
    auto grad =
        AttentionGradOp::create(b, dOut, getQ(), getK(), getV(), getO(), getLse(), getMask(), getScaleAttr(),
                                getSoftcapAttr(), getCausalAttr(), getCausalOffsetAttr(), getSequenceMajorAttr());
    for (unsigned i = 0; i < 3; ++i)
      if (needed[i])
        operandGradients[i] = grad->getResult(i);
  }
  if (getMask() && needed[3] && isFloatTensor(getMask()))
    operandGradients[3] = b.sumTo(ScoreGradient(b, *this).build(dOut), typeOf(getMask()));
  return success();
}

/// y = x·cos + R(x)·sin with a linear R; the adjoint form is x·cos + Rᵀ(x·sin).
MAESTRO_GRADIENT(RopeOp) {
  operandGradients.assign(3, Value());
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  GradientBuilder b(*this, builder);
  if (needed[0])
    operandGradients[0] = b.emit<RopeOp>(dy, getCos(), getSin(), getInterleavedAttr(), b.getBoolAttr(!getAdjoint()));
  if (needed[1])
    operandGradients[1] = b.sumTo(b.emit<MulOp>(dy, getX()), typeOf(getCos()));
  if (!needed[2])
    return success();
  // dsin = dy ⊙ R(x), and in the adjoint form R(dy) ⊙ x.
  Value rotatedSide = getAdjoint() ? dy : Value(getX());
  Value otherSide = getAdjoint() ? Value(getX()) : dy;
  Value rotated =
      b.emit<RopeOp>(rotatedSide, b.zeros(typeOf(getCos())), b.emit<FillOp>(getSin().getType(), b.getF64FloatAttr(1.0)),
                     getInterleavedAttr(), b.getBoolAttr(false));
  operandGradients[2] = b.sumTo(b.emit<MulOp>(rotated, otherSide), typeOf(getSin()));
  return success();
}

} // namespace maestro::nn
