// Result types of softmax and norms.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::ArrayRef;
using llvm::LogicalResult;
using mlir::failed;
using mlir::failure;
using mlir::success;

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

static LogicalResult inferSoftmax(Inference inference, TensorType x, int64_t axis) {
  if (failed(inference.checkFloat("x", x)) || failed(inference.checkAxis(axis, x)))
    return failure();
  return inference.add(x);
}

static LogicalResult inferSoftmaxGrad(Inference inference, TensorType y, TensorType dy, int64_t axis) {
  if (failed(inference.checkSameElement("y and dy", y, dy)) || failed(inference.checkShape("dy", dy, y.getShape())))
    return failure();
  return inferSoftmax(inference, dy, axis);
}

#define MAESTRO_INFER_SOFTMAX(OpTy)                                                                                    \
  MAESTRO_INFER(OpTy) {                                                                                                \
    return inferSoftmax({getOperationName(), location, types}, tensorOf(adaptor.getX()),                               \
                        static_cast<int64_t>(adaptor.getAxis()));                                                      \
  }
MAESTRO_INFER_SOFTMAX(SoftmaxOp)
MAESTRO_INFER_SOFTMAX(LogSoftmaxOp)

#define MAESTRO_INFER_SOFTMAX_GRAD(OpTy)                                                                               \
  MAESTRO_INFER(OpTy) {                                                                                                \
    return inferSoftmaxGrad({getOperationName(), location, types}, tensorOf(adaptor.getY()),                           \
                            tensorOf(adaptor.getDy()), static_cast<int64_t>(adaptor.getAxis()));                       \
  }
MAESTRO_INFER_SOFTMAX_GRAD(SoftmaxGradOp)
MAESTRO_INFER_SOFTMAX_GRAD(LogSoftmaxGradOp)

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// x's dims before and from `axis` on.
struct NormShapes {
  ArrayRef<DimExpr> outer, inner;
};

static mlir::FailureOr<NormShapes> checkNorm(const Inference &inference, TensorType x, uint64_t axisAttr) {
  int64_t axis = static_cast<int64_t>(axisAttr);
  if (failed(inference.checkFloat("x", x)) || failed(inference.checkAxis(axis, x)))
    return failure();
  return NormShapes{x.getShape().take_front(axis), x.getShape().drop_front(axis)};
}

/// scale and bias have x's element type, or the one that statistics are kept in.
static LogicalResult checkParameter(const Inference &inference, llvm::StringRef what, TensorType parameter,
                                    TensorType x, NormShapes shapes) {
  if (!parameter)
    return success();
  if (parameter.getElementType() != x.getAccumulatorType() &&
      failed(inference.checkSameElement(("x and " + what).str(), x, parameter)))
    return failure();
  return inference.checkShape(what, parameter, shapes.inner);
}

static LogicalResult checkStatistic(const Inference &inference, llvm::StringRef what, TensorType statistic,
                                    TensorType x, NormShapes shapes) {
  if (statistic.getElementType() != x.getAccumulatorType())
    return inference.fail(what + " must be f32 (f64 for f64)");
  return inference.checkShape(what, statistic, shapes.outer);
}

/// The type of y.
static mlir::FailureOr<TensorType> normResult(const Inference &inference, TensorType x, bool bf16Result) {
  if (!bf16Result)
    return x;
  if (!x.getElementType().isF32())
    return inference.fail("has bf16_result, and x is not f32");
  return TensorType::get(x.getContext(), x.getShape(), mlir::BFloat16Type::get(x.getContext()));
}

/// dy has x's type, or is what came of an f32 x as bf16.
static LogicalResult checkNormGradient(const Inference &inference, TensorType dy, TensorType x) {
  bool narrowed = x.getElementType().isF32() && dy.getElementType().isBF16();
  if (!narrowed && failed(inference.checkSameElement("x and dy", x, dy)))
    return failure();
  return inference.checkShape("dy", dy, x.getShape());
}

MAESTRO_INFER(LayerNormOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX());
  mlir::FailureOr<NormShapes> shapes = checkNorm(inference, x, adaptor.getAxis());
  if (failed(shapes) || failed(checkParameter(inference, "scale", tensorOf(adaptor.getScale()), x, *shapes)) ||
      failed(checkParameter(inference, "bias", tensorOf(adaptor.getBias()), x, *shapes)))
    return failure();
  mlir::FailureOr<TensorType> y = normResult(inference, x, adaptor.getBf16Result());
  if (failed(y) || failed(inference.add(*y)) || failed(inference.add(shapes->outer, x.getAccumulatorType())))
    return failure();
  return inference.add(shapes->outer, x.getAccumulatorType());
}

MAESTRO_INFER(LayerNormGradOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX()), dy = tensorOf(adaptor.getDy());
  mlir::FailureOr<NormShapes> shapes = checkNorm(inference, x, adaptor.getAxis());
  if (failed(shapes) || failed(checkNormGradient(inference, dy, x)) ||
      failed(checkStatistic(inference, "mean", tensorOf(adaptor.getMean()), x, *shapes)) ||
      failed(checkStatistic(inference, "rstd", tensorOf(adaptor.getRstd()), x, *shapes)) ||
      failed(checkParameter(inference, "scale", tensorOf(adaptor.getScale()), x, *shapes)))
    return failure();
  if (failed(inference.add(x)) || failed(inference.add(shapes->inner, x.getAccumulatorType())))
    return failure();
  return inference.add(shapes->inner, x.getAccumulatorType());
}

MAESTRO_INFER(RmsNormOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX());
  mlir::FailureOr<NormShapes> shapes = checkNorm(inference, x, adaptor.getAxis());
  if (failed(shapes) || failed(checkParameter(inference, "scale", tensorOf(adaptor.getScale()), x, *shapes)))
    return failure();
  mlir::FailureOr<TensorType> y = normResult(inference, x, adaptor.getBf16Result());
  if (failed(y) || failed(inference.add(*y)))
    return failure();
  return inference.add(shapes->outer, x.getAccumulatorType());
}

MAESTRO_INFER(RmsNormGradOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX()), dy = tensorOf(adaptor.getDy());
  mlir::FailureOr<NormShapes> shapes = checkNorm(inference, x, adaptor.getAxis());
  if (failed(shapes) || failed(checkNormGradient(inference, dy, x)) ||
      failed(checkStatistic(inference, "rstd", tensorOf(adaptor.getRstd()), x, *shapes)) ||
      failed(checkParameter(inference, "scale", tensorOf(adaptor.getScale()), x, *shapes)) || failed(inference.add(x)))
    return failure();
  return inference.add(shapes->inner, x.getAccumulatorType());
}

} // namespace maestro::nn
