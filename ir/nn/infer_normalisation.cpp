// Result types of softmax, norms, rotary embeddings, attention and dropout.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::ArrayRef;
using llvm::LogicalResult;
using llvm::SmallVector;
using llvm::Twine;
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

MAESTRO_INFER(LayerNormOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX());
  mlir::FailureOr<NormShapes> shapes = checkNorm(inference, x, adaptor.getAxis());
  if (failed(shapes) || failed(checkParameter(inference, "scale", tensorOf(adaptor.getScale()), x, *shapes)) ||
      failed(checkParameter(inference, "bias", tensorOf(adaptor.getBias()), x, *shapes)))
    return failure();
  if (failed(inference.add(x)) || failed(inference.add(shapes->outer, x.getAccumulatorType())))
    return failure();
  return inference.add(shapes->outer, x.getAccumulatorType());
}

MAESTRO_INFER(LayerNormGradOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX()), dy = tensorOf(adaptor.getDy());
  mlir::FailureOr<NormShapes> shapes = checkNorm(inference, x, adaptor.getAxis());
  if (failed(shapes) || failed(inference.checkSameElement("x and dy", x, dy)) ||
      failed(inference.checkShape("dy", dy, x.getShape())) ||
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
  if (failed(shapes) || failed(checkParameter(inference, "scale", tensorOf(adaptor.getScale()), x, *shapes)) ||
      failed(inference.add(x)))
    return failure();
  return inference.add(shapes->outer, x.getAccumulatorType());
}

MAESTRO_INFER(RmsNormGradOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX()), dy = tensorOf(adaptor.getDy());
  mlir::FailureOr<NormShapes> shapes = checkNorm(inference, x, adaptor.getAxis());
  if (failed(shapes) || failed(inference.checkSameElement("x and dy", x, dy)) ||
      failed(inference.checkShape("dy", dy, x.getShape())) ||
      failed(checkStatistic(inference, "rstd", tensorOf(adaptor.getRstd()), x, *shapes)) ||
      failed(checkParameter(inference, "scale", tensorOf(adaptor.getScale()), x, *shapes)) || failed(inference.add(x)))
    return failure();
  return inference.add(shapes->inner, x.getAccumulatorType());
}

//===----------------------------------------------------------------------===//
// Rotary embedding and attention
//===----------------------------------------------------------------------===//

MAESTRO_INFER(RopeOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX());
  if (failed(inference.checkFloat("x", x)) || failed(inference.checkRank("x", x, 1, TensorType::kMaxRank)))
    return failure();
  if (!DimExpr::mod(x.getShape().back(), 2).isConstant(0))
    return inference.fail("the last dim of x " + shapeText(x.getShape()) + " must be even");
  for (auto [name, value] : {std::pair("cos", adaptor.getCos()), std::pair("sin", adaptor.getSin())}) {
    TensorType type = tensorOf(value);
    if (type.getElementType() != x.getAccumulatorType() &&
        failed(inference.checkSameElement((Twine("x and ") + name).str(), x, type)))
      return failure();
    if (failed(inference.checkBroadcastsTo(name, type, x.getShape())))
      return failure();
  }
  return inference.add(x);
}

/// The dims of attention by name, whatever the layout.
struct AttentionDims {
  DimExpr batch, heads, keyHeads, queries, keys, depth, valueDepth;
};

static AttentionDims attentionDims(TensorType q, TensorType k, TensorType v, bool sequenceMajor) {
  int64_t head = sequenceMajor ? 2 : 1, position = sequenceMajor ? 1 : 2;
  return {q.getDim(0),        q.getDim(head), k.getDim(head), q.getDim(position),
          k.getDim(position), q.getDim(3),    v.getDim(3)};
}

static SmallVector<DimExpr> layOut(const DimExpr &batch, const DimExpr &heads, const DimExpr &positions,
                                   const DimExpr &depth, bool sequenceMajor) {
  if (sequenceMajor)
    return {batch, positions, heads, depth};
  return {batch, heads, positions, depth};
}

template <typename Adaptor> static LogicalResult checkAttention(const Inference &inference, Adaptor adaptor) {
  TensorType q = tensorOf(adaptor.getQ()), k = tensorOf(adaptor.getK()), v = tensorOf(adaptor.getV()),
             mask = tensorOf(adaptor.getMask());
  bool major = adaptor.getSequenceMajor();
  if (failed(inference.checkFloat("q", q)) || failed(inference.checkSameElement("q and k", q, k)) ||
      failed(inference.checkSameElement("q and v", q, v)))
    return failure();
  for (auto [name, type] : {std::pair("q", q), std::pair("k", k), std::pair("v", v)})
    if (failed(inference.checkRank(name, type, 4, 4)))
      return failure();
  AttentionDims dims = attentionDims(q, k, v, major);
  if (failed(inference.checkShape("k", k, layOut(dims.batch, dims.keyHeads, dims.keys, dims.depth, major))) ||
      failed(inference.checkShape("v", v, layOut(dims.batch, dims.keyHeads, dims.keys, dims.valueDepth, major))))
    return failure();
  if (!dims.heads.exactQuotient(dims.keyHeads))
    return inference.fail(dims.heads.str() + " query heads are no multiple of " + dims.keyHeads.str() + " key heads");
  if (!mask)
    return success();
  if (!mask.isBool() && failed(inference.checkFloat("mask (or i1)", mask)))
    return failure();
  return inference.checkBroadcastsTo("mask", mask, {dims.batch, dims.heads, dims.queries, dims.keys});
}

MAESTRO_INFER(AttentionOp) {
  Inference inference(getOperationName(), location, types);
  if (failed(checkAttention(inference, adaptor)))
    return failure();
  TensorType q = tensorOf(adaptor.getQ());
  bool major = adaptor.getSequenceMajor();
  AttentionDims dims = attentionDims(q, tensorOf(adaptor.getK()), tensorOf(adaptor.getV()), major);
  if (failed(inference.add(layOut(dims.batch, dims.heads, dims.queries, dims.valueDepth, major), q.getElementType())))
    return failure();
  return inference.add({dims.batch, dims.heads, dims.queries}, q.getAccumulatorType());
}

MAESTRO_INFER(AttentionGradOp) {
  Inference inference(getOperationName(), location, types);
  if (failed(checkAttention(inference, adaptor)))
    return failure();
  TensorType q = tensorOf(adaptor.getQ()), k = tensorOf(adaptor.getK()), v = tensorOf(adaptor.getV());
  bool major = adaptor.getSequenceMajor();
  AttentionDims dims = attentionDims(q, k, v, major);
  SmallVector<DimExpr> result = layOut(dims.batch, dims.heads, dims.queries, dims.valueDepth, major);
  if (failed(inference.checkShape("grad", tensorOf(adaptor.getGrad()), result)) ||
      failed(inference.checkShape("o", tensorOf(adaptor.getO()), result)) ||
      failed(inference.checkShape("lse", tensorOf(adaptor.getLse()), {dims.batch, dims.heads, dims.queries})))
    return failure();
  for (TensorType type : {q, k, v})
    if (failed(inference.add(type)))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

MAESTRO_INFER(DropoutOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX()), state = tensorOf(adaptor.getState()), ids = tensorOf(adaptor.getSampleIds());
  double ratio = adaptor.getRatio().convertToDouble();
  if (failed(inference.checkFloat("x", x)) || failed(inference.checkRank("x", x, 1, TensorType::kMaxRank)) ||
      failed(inference.checkShape("state", state, {DimExpr(2)})) ||
      failed(inference.checkRank("sample_ids", ids, 1, 1)))
    return failure();
  if (!state.getElementType().isInteger(64) || !ids.getElementType().isInteger(64))
    return inference.fail("state and sample_ids must be i64");
  if (!(ratio >= 0.0 && ratio < 1.0))
    return inference.fail("ratio must lie in [0, 1), is " + std::to_string(ratio));
  if (static_cast<int64_t>(adaptor.getStrides().size()) != x.getRank() - 1)
    return inference.fail("wants " + Twine(x.getRank() - 1) + " strides, one for each dim of x " +
                          "after the first, has " + Twine(adaptor.getStrides().size()));
  return inference.add(x);
}

} // namespace maestro::nn
