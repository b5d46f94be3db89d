// Gradients of reductions, and of what runs along an axis: the result's gradient, spread over what was reduced.
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {
namespace {

/// reduce_max and reduce_min: elements that equal the result share its gradient equally.
template <typename OpTy>
LogicalResult extremum(OpTy op, OpBuilder &builder, ValueRange dys, ArrayRef<bool> needed,
                       SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  Value arrived = arriving(dys, needed, op.getX());
  if (!arrived)
    return success();
  GradientBuilder b(op, builder);
  Value x = op.getX();
  Value y = b.restoreAxes(op.getY(), shapeOf(x), op.getAxes());
  Value dy = b.restoreAxes(arrived, shapeOf(x), op.getAxes());
  Value chosen = b.emit<EqualOp>(x, y);
  Value ties = b.emit<ReduceSumOp>(b.cast(chosen, typeOf(x).getElementType()), op.getAxes(),
                                   /*keepdims=*/true);
  gradients[0] = b.emit<WhereOp>(chosen, b.emit<DivOp>(dy, ties), b.scalar(dy, 0.0));
  return success();
}

/// The number of elements that `axes` reduce, as a scalar of `like`'s type.
Value reducedElements(GradientBuilder &b, Value x, ArrayRef<int64_t> axes, Value like) {
  DimExpr count(1);
  for (int64_t axis : axes)
    count = count * shapeOf(x)[axis];
  if (std::optional<int64_t> constant = count.asConstant())
    return b.scalar(like, double(*constant));
  Value number =
      b.emit<DimValuesOp>(TensorType::get(b.getContext(), {}, b.getI64Type()), DimsAttr::get(b.getContext(), {count}));
  return b.cast(number, typeOf(like).getElementType());
}

} // namespace

MAESTRO_GRADIENT(ReduceSumOp) {
  operandGradients.assign(1, Value());
  Value arrived = arriving(resultGradients, needed, getX());
  if (!arrived)
    return success();
  GradientBuilder b(*this, builder);
  Value dy = b.restoreAxes(arrived, shapeOf(getX()), getAxes());
  operandGradients[0] = b.emit<BroadcastToOp>(getX().getType(), dy);
  return success();
}

MAESTRO_GRADIENT(ReduceMeanOp) {
  operandGradients.assign(1, Value());
  Value arrived = arriving(resultGradients, needed, getX());
  if (!arrived)
    return success();
  GradientBuilder b(*this, builder);
  Value dy = b.restoreAxes(arrived, shapeOf(getX()), getAxes());
  Value wide = b.widened(dy);
  Value share = b.emit<DivOp>(wide, reducedElements(b, getX(), getAxes(), wide));
  share = b.cast(share, typeOf(getX()).getElementType());
  operandGradients[0] = b.emit<BroadcastToOp>(getX().getType(), share);
  return success();
}

MAESTRO_GRADIENT(ReduceMaxOp) { return extremum(*this, builder, resultGradients, needed, operandGradients); }

MAESTRO_GRADIENT(ReduceMinOp) { return extremum(*this, builder, resultGradients, needed, operandGradients); }

/// dy times the product of the other elements: the product ÷ the element, but where there are zeros. Beside one zero
/// all others get nothing, and it gets the product of the rest; beside two nothing has a gradient.
MAESTRO_GRADIENT(ReduceProdOp) {
  operandGradients.assign(1, Value());
  Value arrived = arriving(resultGradients, needed, getX());
  if (!arrived)
    return success();
  GradientBuilder b(*this, builder);
  Value x = getX(), dy = b.restoreAxes(arrived, shapeOf(x), getAxes());
  Value zero = b.scalar(x, 0.0), isZero = b.emit<EqualOp>(x, zero);
  Value factors = b.emit<WhereOp>(isZero, b.scalar(x, 1.0), x);
  Value product = b.emit<ReduceProdOp>(factors, getAxes(), /*keepdims=*/true);
  Value zeros = b.emit<ReduceSumOp>(b.cast(isZero, typeOf(x).getElementType()), getAxes(), /*keepdims=*/true);
  Value others = b.emit<SubOp>(zeros, b.cast(isZero, typeOf(x).getElementType()));
  Value slope = b.emit<WhereOp>(b.emit<EqualOp>(others, zero), b.emit<DivOp>(product, factors), zero);
  operandGradients[0] = b.emit<MulOp>(dy, slope);
  return success();
}

MAESTRO_GRADIENT(CumsumOp) {
  operandGradients.assign(1, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getX()))
    operandGradients[0] = b.emit<CumsumOp>(dy, getAxisAttr(), getExclusiveAttr(), b.getBoolAttr(!getReverse()));
  return success();
}

MAESTRO_GRADIENT(TopKOp) {
  operandGradients.assign(1, Value());
  Value dvalues = arriving(resultGradients, needed, getX());
  if (!dvalues)
    return success();
  GradientBuilder b(*this, builder);
  operandGradients[0] =
      b.emit<ScatterElementsOp>(b.zeros(typeOf(getX())), getIndices(), dvalues, getAxisAttr(), b.getStringAttr("none"));
  return success();
}

} // namespace maestro::nn
