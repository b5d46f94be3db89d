// Gradients of softmaxes, norms, rotary embedding and dropout: mostly one fused operator each.
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {
namespace {

/// Norms return statistics for their own gradient; a gradient that arrives there was asked for by a
/// graph that computes with them, which no importer produces.
LogicalResult onlyFirstResult(Operation *op, ValueRange resultGradients) {
  for (Value gradient : resultGradients.drop_front())
    if (gradient)
      return op->emitOpError() << "passes gradients through its first result only; use the "
                                  "decomposed form to differentiate its statistics";
  return success();
}

template <typename GradOp, typename OpTy>
LogicalResult softmaxLike(OpTy op, OpBuilder &builder, ValueRange dys, ArrayRef<bool> needed,
                          SmallVectorImpl<Value> &gradients) {
  gradients.assign(1, Value());
  if (needed[0] && dys[0])
    gradients[0] = GradientBuilder(op, builder).template emit<GradOp>(op.getY(), dys[0], op.getAxisAttr());
  return success();
}

} // namespace

LogicalResult SoftmaxOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                       SmallVectorImpl<Value> &operandGradients) {
  return softmaxLike<SoftmaxGradOp>(*this, builder, resultGradients, needed, operandGradients);
}

LogicalResult LogSoftmaxOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                          SmallVectorImpl<Value> &operandGradients) {
  return softmaxLike<LogSoftmaxGradOp>(*this, builder, resultGradients, needed, operandGradients);
}

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                         SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getNumOperands(), Value());
  if (failed(onlyFirstResult(*this, resultGradients)))
    return failure();
  if (!resultGradients[0])
    return success();
  GradientBuilder b(*this, builder);
  auto grad = LayerNormGradOp::create(b, resultGradients[0], getX(), getMean(), getRstd(), getScale(), getAxisAttr());
  unsigned operand = 0;
  if (needed[operand++])
    operandGradients[0] = grad.getDx();
  if (getScale() && needed[operand++])
    operandGradients[operand - 1] = b.cast(grad.getDscale(), typeOf(getScale()).getElementType());
  if (getBias() && needed[operand++])
    operandGradients[operand - 1] = b.cast(grad.getDbias(), typeOf(getBias()).getElementType());
  return success();
}

LogicalResult RmsNormOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                       SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getNumOperands(), Value());
  if (failed(onlyFirstResult(*this, resultGradients)))
    return failure();
  if (!resultGradients[0])
    return success();
  GradientBuilder b(*this, builder);
  auto grad = RmsNormGradOp::create(b, resultGradients[0], getX(), getRstd(), getScale(), getAxisAttr());
  if (needed[0])
    operandGradients[0] = grad.getDx();
  if (getScale() && needed[1])
    operandGradients[1] = b.cast(grad.getDscale(), typeOf(getScale()).getElementType());
  return success();
}

/// y = x·cos + R(x)·sin with a linear R; the adjoint form is x·cos + Rᵀ(x·sin).
LogicalResult RopeOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                    SmallVectorImpl<Value> &operandGradients) {
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

LogicalResult DropoutOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                       SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(3, Value());
  if (needed[0] && resultGradients[0])
    operandGradients[0] = GradientBuilder(*this, builder)
                              .emit<DropoutOp>(resultGradients[0], getState(), getSampleIds(), getRatioAttr(),
                                               getStreamAttr(), getStridesAttr());
  return success();
}

} // namespace maestro::nn
