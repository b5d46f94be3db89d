// Gradients of softmaxes and norms: one fused operator each.
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

MAESTRO_GRADIENT(SoftmaxOp) {
  return softmaxLike<SoftmaxGradOp>(*this, builder, resultGradients, needed, operandGradients);
}

MAESTRO_GRADIENT(LogSoftmaxOp) {
  return softmaxLike<LogSoftmaxGradOp>(*this, builder, resultGradients, needed, operandGradients);
}

MAESTRO_GRADIENT(LayerNormOp) {
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

MAESTRO_GRADIENT(RmsNormOp) {
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

} // namespace maestro::nn
