// Result types of losses.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::LogicalResult;
using mlir::failed;
using mlir::failure;

/// The dims of logits without the classes.
static llvm::ArrayRef<DimExpr> positionsOf(TensorType logits) { return logits.getShape().drop_back(1); }

static LogicalResult checkLogits(const Inference &inference, llvm::StringRef what, TensorType logits) {
  if (failed(inference.checkFloat(what, logits)))
    return failure();
  return inference.checkRank(what, logits, 1, TensorType::kMaxRank);
}

static LogicalResult checkCrossEntropy(const Inference &inference, TensorType logits, TensorType labels) {
  if (failed(checkLogits(inference, "logits", logits)) || failed(inference.checkInteger("labels", labels)))
    return failure();
  return inference.checkShape("labels", labels, positionsOf(logits));
}

MAESTRO_INFER(CrossEntropyOp) {
  Inference inference(getOperationName(), location, types);
  TensorType logits = tensorOf(adaptor.getLogits());
  if (failed(checkCrossEntropy(inference, logits, tensorOf(adaptor.getLabels()))) ||
      failed(inference.add(positionsOf(logits), logits.getAccumulatorType())))
    return failure();
  return inference.add(positionsOf(logits), logits.getAccumulatorType());
}

MAESTRO_INFER(CrossEntropyGradOp) {
  Inference inference(getOperationName(), location, types);
  TensorType logits = tensorOf(adaptor.getLogits());
  if (failed(checkCrossEntropy(inference, logits, tensorOf(adaptor.getLabels()))) ||
      failed(inference.checkShape("lse", tensorOf(adaptor.getLse()), positionsOf(logits))) ||
      failed(inference.checkBroadcastsTo("dloss", tensorOf(adaptor.getDloss()), positionsOf(logits))))
    return failure();
  return inference.add(logits);
}

static LogicalResult checkKlDivergence(const Inference &inference, TensorType student, TensorType teacher,
                                       double temperature) {
  if (failed(checkLogits(inference, "student", student)) || failed(checkLogits(inference, "teacher", teacher)) ||
      failed(inference.checkShape("teacher", teacher, student.getShape())))
    return failure();
  if (!(temperature > 0.0))
    return inference.fail("temperature must be above 0, is " + std::to_string(temperature));
  return mlir::success();
}

MAESTRO_INFER(KlDivergenceOp) {
  Inference inference(getOperationName(), location, types);
  TensorType student = tensorOf(adaptor.getStudent());
  if (failed(checkKlDivergence(inference, student, tensorOf(adaptor.getTeacher()),
                               adaptor.getTemperature().convertToDouble())))
    return failure();
  for (int result = 0; result < 3; ++result)
    if (failed(inference.add(positionsOf(student), student.getAccumulatorType())))
      return failure();
  return mlir::success();
}

MAESTRO_INFER(KlDivergenceGradOp) {
  Inference inference(getOperationName(), location, types);
  TensorType student = tensorOf(adaptor.getStudent());
  llvm::ArrayRef<DimExpr> positions = positionsOf(student);
  if (failed(checkKlDivergence(inference, student, tensorOf(adaptor.getTeacher()),
                               adaptor.getTemperature().convertToDouble())) ||
      failed(inference.checkShape("lse_student", tensorOf(adaptor.getLseStudent()), positions)) ||
      failed(inference.checkShape("lse_teacher", tensorOf(adaptor.getLseTeacher()), positions)) ||
      failed(inference.checkBroadcastsTo("dloss", tensorOf(adaptor.getDloss()), positions)))
    return failure();
  return inference.add(student);
}

} // namespace maestro::nn
