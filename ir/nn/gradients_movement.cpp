// Gradients of operators that move data: each is the transposed movement.
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {

MAESTRO_GRADIENT(ReshapeOp) {
  operandGradients.assign(1, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getX()))
    operandGradients[0] = b.reshape(dy, shapeOf(getX()));
  return success();
}

MAESTRO_GRADIENT(TransposeOp) {
  operandGradients.assign(1, Value());
  Value dy = arriving(resultGradients, needed, getX());
  if (!dy)
    return success();
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [to, from] : llvm::enumerate(getPermutation()))
    inverse[from] = to;
  operandGradients[0] = GradientBuilder(*this, builder).emit<TransposeOp>(dy, inverse);
  return success();
}

MAESTRO_GRADIENT(BroadcastToOp) {
  operandGradients.assign(1, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getX()))
    operandGradients[0] = b.sumTo(dy, typeOf(getX()));
  return success();
}

MAESTRO_GRADIENT(ConcatOp) {
  operandGradients.assign(getNumOperands(), Value());
  Value dy = resultGradients[0];
  if (!dy || !isFloatTensor(getResult()))
    return success();
  GradientBuilder b(*this, builder);
  SmallVector<DimExpr> offsets(rankOf(getResult()));
  SmallVector<int64_t> steps(rankOf(getResult()), 1);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    if (needed[i])
      operandGradients[i] = b.emit<SliceOp>(input.getType(), dy, DimsAttr::get(getContext(), offsets), steps);
    offsets[getAxis()] = offsets[getAxis()] + shapeOf(input)[getAxis()];
  }
  return success();
}

MAESTRO_GRADIENT(SliceOp) {
  operandGradients.assign(1, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getX()))
    operandGradients[0] = b.emit<SliceGradOp>(getX().getType(), dy, getOffsetsAttr(), getStepsAttr());
  return success();
}

MAESTRO_GRADIENT(PadOp) {
  operandGradients.assign(1, Value());
  Value dy = arriving(resultGradients, needed, getX());
  if (!dy)
    return success();
  if (getMode() != "constant")
    return emitOpError() << "in mode '" << getMode() << "' has no gradient; only mode 'constant' has one";
  SmallVector<int64_t> steps(rankOf(getX()), 1);
  operandGradients[0] = GradientBuilder(*this, builder).emit<SliceOp>(getX().getType(), dy, getLowAttr(), steps);
  return success();
}

} // namespace maestro::nn
