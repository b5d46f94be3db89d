// Gradients of the per-position losses. The gradient that arrives is nearly always one scalar,
// broadcast (scale_k of the step): it is passed on as the scalar.
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {
namespace {

LogicalResult onlyLoss(Operation *op, ValueRange resultGradients) {
  for (Value gradient : resultGradients.drop_front())
    if (gradient)
      return op->emitOpError() << "passes gradients through its loss only, not through lse";
  return success();
}

/// The gradient for the teacher's logits t: p_t/T · ((log p_t − log p_s) − loss) · dloss.
Value teacherGradient(GradientBuilder &b, KlDivergenceOp op, Value dloss) {
  double inverse = 1.0 / op.getTemperature().convertToDouble();
  SmallVector<DimExpr> column(shapeOf(op.getLoss()));
  column.push_back(DimExpr(1));
  auto logProbability = [&](Value logits, Value lse) {
    return b.emit<SubOp>(b.scaled(b.widened(logits), inverse), b.reshape(lse, column));
  };
  Value logTeacher = logProbability(op.getTeacher(), op.getLseTeacher());
  Value logStudent = logProbability(op.getStudent(), op.getLseStudent());
  Value centred = b.emit<SubOp>(b.emit<SubOp>(logTeacher, logStudent), b.reshape(op.getLoss(), column));
  Value scaledLoss = b.reshape(b.scaled(dloss, inverse), column);
  Value gradient = b.emit<MulOp>(b.emit<MulOp>(b.emit<ExpOp>(logTeacher), centred), scaledLoss);
  return b.cast(gradient, typeOf(op.getTeacher()).getElementType());
}

} // namespace

MAESTRO_GRADIENT(CrossEntropyOp) {
  operandGradients.assign(2, Value());
  if (failed(onlyLoss(*this, resultGradients)))
    return failure();
  if (needed[0] && resultGradients[0])
    operandGradients[0] = GradientBuilder(*this, builder)
                              .emit<CrossEntropyGradOp>(getLogits(), getLabels(), getLse(),
                                                        beforeBroadcast(resultGradients[0]), getIgnoreIndexAttr());
  return success();
}

MAESTRO_GRADIENT(KlDivergenceOp) {
  operandGradients.assign(2, Value());
  if (failed(onlyLoss(*this, resultGradients)))
    return failure();
  if (!resultGradients[0])
    return success();
  GradientBuilder b(*this, builder);
  if (needed[0])
    operandGradients[0] = b.emit<KlDivergenceGradOp>(getStudent(), getTeacher(), getLseStudent(), getLseTeacher(),
                                                     beforeBroadcast(resultGradients[0]), getTemperatureAttr());
  if (needed[1])
    operandGradients[1] = teacherGradient(b, *this, resultGradients[0]);
  return success();
}

} // namespace maestro::nn
