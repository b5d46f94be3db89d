// Result types of attention and rotary embeddings.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::LogicalResult;
using llvm::SmallVector;
using llvm::Twine;
using mlir::failed;
using mlir::failure;
using mlir::success;

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

} // namespace maestro::nn
