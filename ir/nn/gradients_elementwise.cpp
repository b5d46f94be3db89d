// Gradients of elementwise operators. Where a derivative can be told from the result, it is: the
// result is often kept anyway, by the operator that reads it.
#include "ir/nn/gradient_attributes.h"
#include "ir/nn/gradients.h"

#include <numbers>

using namespace mlir;

namespace maestro::nn {
namespace {

/// For operators of one operand: `derivative(builder, dy)` is the operand's gradient.
template <typename OpTy, typename Function>
LogicalResult unary(OpTy op, OpBuilder &builder, ValueRange dys, ArrayRef<bool> needed,
                    SmallVectorImpl<Value> &gradients, Function derivative) {
  gradients.assign(1, Value());
  if (!needed[0] || !dys[0] || !isFloatTensor(op.getX()))
    return success();
  GradientBuilder b(op, builder);
  gradients[0] = derivative(b, dys[0]);
  return success();
}

/// For broadcasting operators of two operands: each function yields its operand's gradient in the
/// result's shape.
template <typename OpTy, typename Left, typename Right>
LogicalResult binary(OpTy op, OpBuilder &builder, ValueRange dys, ArrayRef<bool> needed,
                     SmallVectorImpl<Value> &gradients, Left left, Right right) {
  gradients.assign(2, Value());
  if (!dys[0])
    return success();
  GradientBuilder b(op, builder);
  if (needed[0] && isFloatTensor(op.getLhs()))
    gradients[0] = b.sumTo(left(b, dys[0]), typeOf(op.getLhs()));
  if (needed[1] && isFloatTensor(op.getRhs()))
    gradients[1] = b.sumTo(right(b, dys[0]), typeOf(op.getRhs()));
  return success();
}

/// maximum and minimum: `Wins` says where the first operand is the result; ties share equally, or
/// are the bound's.
template <typename Wins, typename OpTy>
LogicalResult selected(OpTy op, OpBuilder &builder, ValueRange dys, ArrayRef<bool> needed,
                       SmallVectorImpl<Value> &gradients) {
  auto share = [](Value self, Value other) {
    return [=](GradientBuilder &b, Value dy) {
      Value tied = b.emit<EqualOp>(self, other);
      Value shared = b.emit<WhereOp>(tied, b.scaled(dy, 0.5), b.scalar(dy, 0.0));
      return b.emit<WhereOp>(b.emit<Wins>(self, other), dy, shared);
    };
  };
  if (!op->hasAttr(kClamps))
    return binary(op, builder, dys, needed, gradients, share(op.getLhs(), op.getRhs()),
                  share(op.getRhs(), op.getLhs()));
  auto inside = [=](GradientBuilder &b) mutable { return b.emit<Wins>(op.getLhs(), op.getRhs()); };
  return binary(
      op, builder, dys, needed, gradients,
      [=](GradientBuilder &b, Value dy) mutable { return b.emit<WhereOp>(inside(b), dy, b.scalar(dy, 0.0)); },
      [=](GradientBuilder &b, Value dy) mutable { return b.emit<WhereOp>(inside(b), b.scalar(dy, 0.0), dy); });
}

/// 1/√(1 − x²), the slope of arcsin.
Value circleSlope(GradientBuilder &b, Value x) {
  return b.emit<RsqrtOp>(b.emit<SubOp>(b.scalar(x, 1.0), b.emit<MulOp>(x, x)));
}

} // namespace

#define MAESTRO_UNARY_GRADIENT(OpTy, expression)                                                                       \
  MAESTRO_GRADIENT(OpTy) {                                                                                             \
    OpTy op = *this;                                                                                                   \
    return unary(op, builder, resultGradients, needed, operandGradients,                                               \
                 [=](GradientBuilder &b, Value dy) mutable -> Value { return expression; });                           \
  }

MAESTRO_UNARY_GRADIENT(NegOp, b.emit<NegOp>(dy))
MAESTRO_UNARY_GRADIENT(AbsOp, b.emit<MulOp>(dy, b.emit<SignOp>(op.getX())))
MAESTRO_UNARY_GRADIENT(ExpOp, b.emit<MulOp>(dy, op.getY()))
MAESTRO_UNARY_GRADIENT(LogOp, b.emit<DivOp>(dy, op.getX()))
MAESTRO_UNARY_GRADIENT(SqrtOp, b.emit<DivOp>(b.scaled(dy, 0.5), op.getY()))
MAESTRO_UNARY_GRADIENT(RsqrtOp,
                       b.emit<MulOp>(b.scaled(dy, -0.5), b.emit<MulOp>(op.getY(), b.emit<MulOp>(op.getY(), op.getY()))))
MAESTRO_UNARY_GRADIENT(ReciprocalOp, b.emit<NegOp>(b.emit<MulOp>(dy, b.emit<MulOp>(op.getY(), op.getY()))))
MAESTRO_UNARY_GRADIENT(SinOp, b.emit<MulOp>(dy, b.emit<CosOp>(op.getX())))
MAESTRO_UNARY_GRADIENT(CosOp, b.emit<NegOp>(b.emit<MulOp>(dy, b.emit<SinOp>(op.getX()))))
MAESTRO_UNARY_GRADIENT(AsinOp, b.emit<MulOp>(dy, circleSlope(b, op.getX())))
MAESTRO_UNARY_GRADIENT(AcosOp, b.emit<NegOp>(b.emit<MulOp>(dy, circleSlope(b, op.getX()))))
MAESTRO_UNARY_GRADIENT(AtanOp,
                       b.emit<DivOp>(dy, b.emit<AddOp>(b.emit<MulOp>(op.getX(), op.getX()), b.scalar(op.getX(), 1.0))))
MAESTRO_UNARY_GRADIENT(TanhOp, b.emit<TanhGradOp>(op.getY(), dy))
MAESTRO_UNARY_GRADIENT(SigmoidOp, b.emit<SigmoidGradOp>(op.getY(), dy))
MAESTRO_UNARY_GRADIENT(ReluOp, b.emit<ReluGradOp>(op.getY(), dy))
MAESTRO_UNARY_GRADIENT(SiluOp, b.emit<SiluGradOp>(op.getX(), dy))
MAESTRO_UNARY_GRADIENT(GeluOp, b.emit<GeluGradOp>(op.getX(), dy, op.getApproximateAttr()))
MAESTRO_UNARY_GRADIENT(SoftplusOp, b.emit<MulOp>(dy, b.emit<SigmoidOp>(op.getX())))
MAESTRO_UNARY_GRADIENT(ErfOp, b.emit<MulOp>(b.scaled(dy, 2.0 * std::numbers::inv_sqrtpi),
                                            b.emit<ExpOp>(b.emit<NegOp>(b.emit<MulOp>(op.getX(), op.getX())))))
MAESTRO_UNARY_GRADIENT(CastOp, isFloatTensor(op.getY()) ? b.cast(beforeRounding(dy), typeOf(op.getX()).getElementType())
                                                        : Value())

#undef MAESTRO_UNARY_GRADIENT

MAESTRO_GRADIENT(GluOp) {
  operandGradients.assign(2, Value());
  if (!resultGradients[0])
    return success();
  GradientBuilder b(*this, builder);
  auto grad = GluGradOp::create(b, resultGradients[0], getGate(), getUp(), getActivationAttr());
  operandGradients.assign({needed[0] ? grad.getDgate() : Value(), needed[1] ? grad.getDup() : Value()});
  return success();
}

MAESTRO_GRADIENT(AddOp) {
  auto same = [](GradientBuilder &, Value dy) { return dy; };
  return binary(*this, builder, resultGradients, needed, operandGradients, same, same);
}

MAESTRO_GRADIENT(SubOp) {
  return binary(
      *this, builder, resultGradients, needed, operandGradients, [](GradientBuilder &, Value dy) { return dy; },
      [](GradientBuilder &b, Value dy) { return b.emit<NegOp>(dy); });
}

MAESTRO_GRADIENT(MulOp) {
  Value lhs = getLhs(), rhs = getRhs();
  return binary(
      *this, builder, resultGradients, needed, operandGradients,
      [=](GradientBuilder &b, Value dy) { return b.emit<MulOp>(dy, rhs); },
      [=](GradientBuilder &b, Value dy) { return b.emit<MulOp>(dy, lhs); });
}

MAESTRO_GRADIENT(DivOp) {
  Value rhs = getRhs(), quotient = getResult();
  return binary(
      *this, builder, resultGradients, needed, operandGradients,
      [=](GradientBuilder &b, Value dy) { return b.emit<DivOp>(dy, rhs); },
      [=](GradientBuilder &b, Value dy) { return b.emit<NegOp>(b.emit<DivOp>(b.emit<MulOp>(dy, quotient), rhs)); });
}

/// lhs − q·rhs with q = ⌊lhs ÷ rhs⌋, cut off towards zero for fmod: q is constant where it has a derivative.
MAESTRO_GRADIENT(ModOp) {
  Value lhs = getLhs(), rhs = getRhs();
  bool cutsOff = getFmod();
  return binary(
      *this, builder, resultGradients, needed, operandGradients, [](GradientBuilder &, Value dy) { return dy; },
      [=](GradientBuilder &b, Value dy) -> Value {
        Value ratio = b.emit<DivOp>(lhs, rhs);
        Value quotient = cutsOff ? b.emit<MulOp>(b.emit<SignOp>(ratio), b.emit<FloorOp>(b.emit<AbsOp>(ratio)))
                                 : b.emit<FloorOp>(ratio);
        return b.emit<NegOp>(b.emit<MulOp>(dy, quotient));
      });
}

MAESTRO_GRADIENT(MaximumOp) { return selected<GreaterOp>(*this, builder, resultGradients, needed, operandGradients); }

MAESTRO_GRADIENT(MinimumOp) { return selected<LessOp>(*this, builder, resultGradients, needed, operandGradients); }

namespace {
/// dy·r·lʳ⁻¹ for a known r; squares and cubes need no power.
Value powerSlope(GradientBuilder &b, Value dy, Value base, double r) {
  if (r == 1.0)
    return dy;
  Value slope = b.scaled(dy, r);
  if (r == 2.0 || r == 3.0)
    slope = b.emit<MulOp>(slope, base);
  if (r == 3.0)
    slope = b.emit<MulOp>(slope, base);
  if (r == 2.0 || r == 3.0)
    return slope;
  return b.emit<MulOp>(slope, b.emit<PowOp>(base, b.scalar(base, r - 1.0)));
}
} // namespace

/// d lhs = dy·r·lʳ⁻¹, 0 where r = 0 (so that 0⁰ passes no NaN); d rhs = dy·lʳ·ln l, 0 where l ≤ 0.
MAESTRO_GRADIENT(PowOp) {
  Value base = getLhs(), exponent = getRhs(), power = getResult();
  Type element = typeOf(base).getElementType();
  return binary(
      *this, builder, resultGradients, needed, operandGradients,
      [=](GradientBuilder &b, Value dy) -> Value {
        std::optional<double> known = constantValue(exponent);
        if (known && *known != 0.0)
          return powerSlope(b, dy, base, *known);
        Value r = b.cast(exponent, element);
        Value lower = b.emit<PowOp>(base, b.emit<SubOp>(r, b.scalar(r, 1.0)));
        Value slope = b.emit<MulOp>(dy, b.emit<MulOp>(r, lower));
        Value zero = b.scalar(r, 0.0);
        return b.emit<WhereOp>(b.emit<EqualOp>(r, zero), zero, slope);
      },
      [=](GradientBuilder &b, Value dy) -> Value {
        Value zero = b.scalar(base, 0.0);
        Value slope = b.emit<MulOp>(dy, b.emit<MulOp>(power, b.emit<LogOp>(base)));
        return b.emit<WhereOp>(b.emit<GreaterOp>(base, zero), slope, zero);
      });
}

MAESTRO_GRADIENT(WhereOp) {
  operandGradients.assign(3, Value());
  Value dy = resultGradients[0];
  if (!dy || !isFloatTensor(getResult()))
    return success();
  GradientBuilder b(*this, builder);
  if (needed[1])
    operandGradients[1] = b.sumTo(b.emit<WhereOp>(getCondition(), dy, b.scalar(dy, 0.0)), typeOf(getOnTrue()));
  if (needed[2])
    operandGradients[2] = b.sumTo(b.emit<WhereOp>(getCondition(), b.scalar(dy, 0.0), dy), typeOf(getOnFalse()));
  return success();
}

} // namespace maestro::nn
