// Result types of gathering and scattering.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::LogicalResult;
using llvm::SmallVector;
using llvm::Twine;
using mlir::failed;
using mlir::failure;

SmallVector<DimExpr> gatherShape(TensorType data, TensorType indices, int64_t axis) {
  SmallVector<DimExpr> shape(data.getShape().take_front(axis));
  llvm::append_range(shape, indices.getShape());
  llvm::append_range(shape, data.getShape().drop_front(axis + 1));
  return shape;
}

MAESTRO_INFER(GatherOp) {
  Inference inference(getOperationName(), location, types);
  TensorType data = tensorOf(adaptor.getData()), indices = tensorOf(adaptor.getIndices());
  int64_t axis = static_cast<int64_t>(adaptor.getAxis());
  if (failed(inference.checkInteger("indices", indices)) || failed(inference.checkAxis(axis, data)))
    return failure();
  return inference.add(gatherShape(data, indices, axis), data.getElementType());
}

/// What GatherElements and ScatterElements ask of their indices.
static LogicalResult checkElementIndices(const Inference &inference, TensorType data, TensorType indices,
                                         int64_t axis) {
  if (failed(inference.checkInteger("indices", indices)) || failed(inference.checkAxis(axis, data)))
    return failure();
  return inference.checkRank("indices (as data)", indices, data.getRank(), data.getRank());
}

MAESTRO_INFER(GatherElementsOp) {
  Inference inference(getOperationName(), location, types);
  TensorType data = tensorOf(adaptor.getData()), indices = tensorOf(adaptor.getIndices());
  if (failed(checkElementIndices(inference, data, indices, static_cast<int64_t>(adaptor.getAxis()))))
    return failure();
  return inference.add(indices.getShape(), data.getElementType());
}

static LogicalResult checkReduction(const Inference &inference, llvm::StringRef reduction) {
  if (llvm::is_contained({"none", "add", "mul", "min", "max"}, reduction))
    return mlir::success();
  return inference.fail("reduction must be none, add, mul, min or max, is \"" + reduction + "\"");
}

MAESTRO_INFER(ScatterElementsOp) {
  Inference inference(getOperationName(), location, types);
  TensorType data = tensorOf(adaptor.getData()), indices = tensorOf(adaptor.getIndices()),
             updates = tensorOf(adaptor.getUpdates());
  if (failed(checkElementIndices(inference, data, indices, static_cast<int64_t>(adaptor.getAxis()))) ||
      failed(inference.checkSameElement("data and updates", data, updates)) ||
      failed(inference.checkShape("updates", updates, indices.getShape())) ||
      failed(checkReduction(inference, adaptor.getReduction())))
    return failure();
  return inference.add(data);
}

LogicalResult gatherNDShape(const Inference &inference, TensorType data, TensorType indices, int64_t batchDims,
                            llvm::SmallVectorImpl<DimExpr> &shape) {
  if (failed(inference.checkInteger("indices", indices)))
    return failure();
  std::optional<int64_t> depth = indices.getRank() ? indices.getShape().back().asConstant() : std::nullopt;
  if (!depth)
    return inference.fail("the last dim of indices " + shapeText(indices.getShape()) + " must be a constant");
  if (batchDims < 0 || batchDims >= indices.getRank() || *depth < 1 || *depth > data.getRank() - batchDims)
    return inference.fail("indices " + shapeText(indices.getShape()) + " with " + Twine(batchDims) +
                          " batch dims do not address data " + shapeText(data.getShape()));
  if (indices.getShape().take_front(batchDims) != data.getShape().take_front(batchDims))
    return inference.fail("the " + Twine(batchDims) + " batch dims of indices " + shapeText(indices.getShape()) +
                          " and data " + shapeText(data.getShape()) + " differ");
  shape.append(indices.getShape().begin(), indices.getShape().end() - 1);
  llvm::append_range(shape, data.getShape().drop_front(batchDims + *depth));
  return mlir::success();
}

MAESTRO_INFER(GatherNDOp) {
  Inference inference(getOperationName(), location, types);
  TensorType data = tensorOf(adaptor.getData());
  SmallVector<DimExpr> shape;
  if (failed(gatherNDShape(inference, data, tensorOf(adaptor.getIndices()),
                           static_cast<int64_t>(adaptor.getBatchDims()), shape)))
    return failure();
  return inference.add(shape, data.getElementType());
}

MAESTRO_INFER(ScatterNDOp) {
  Inference inference(getOperationName(), location, types);
  TensorType data = tensorOf(adaptor.getData()), updates = tensorOf(adaptor.getUpdates());
  SmallVector<DimExpr> shape;
  if (failed(gatherNDShape(inference, data, tensorOf(adaptor.getIndices()), 0, shape)) ||
      failed(inference.checkSameElement("data and updates", data, updates)) ||
      failed(inference.checkShape("updates", updates, shape)) ||
      failed(checkReduction(inference, adaptor.getReduction())))
    return failure();
  return inference.add(data);
}

MAESTRO_INFER(MaskedScatterOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX()), mask = tensorOf(adaptor.getMask());
  if (failed(inference.checkBool("mask", mask)) || failed(inference.checkShape("mask", mask, x.getShape())) ||
      failed(inference.checkSameElement("x and source", x, tensorOf(adaptor.getSource()))))
    return failure();
  return inference.add(x);
}

} // namespace maestro::nn
