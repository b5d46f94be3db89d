// Result types of operators that move data, and of reductions.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::LogicalResult;
using llvm::SmallVector;
using llvm::Twine;
using mlir::failed;
using mlir::failure;

MAESTRO_INFER(TransposeOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX());
  llvm::ArrayRef<int64_t> permutation = adaptor.getPermutation();
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, x.getRank())))
    return inference.fail("permutation must name each of the " + Twine(x.getRank()) + " dims of x once");
  SmallVector<DimExpr> shape;
  for (int64_t dim : permutation)
    shape.push_back(x.getDim(dim));
  return inference.add(shape, x.getElementType());
}

MAESTRO_INFER(ConcatOp) {
  Inference inference(getOperationName(), location, types);
  if (adaptor.getInputs().empty())
    return inference.fail("needs at least one operand");
  TensorType first = tensorOf(adaptor.getInputs()[0]);
  int64_t axis = static_cast<int64_t>(adaptor.getAxis());
  if (failed(inference.checkAxis(axis, first)))
    return failure();
  SmallVector<DimExpr> shape(first.getShape());
  for (mlir::Value input : adaptor.getInputs().drop_front()) {
    TensorType next = tensorOf(input);
    if (failed(inference.checkSameElement("operands", first, next)) ||
        failed(inference.checkRank("every operand", next, first.getRank(), first.getRank())))
      return failure();
    SmallVector<DimExpr> expected(first.getShape());
    expected[axis] = next.getDim(axis);
    if (failed(inference.checkShape("an operand joined along axis " + std::to_string(axis), next, expected)))
      return failure();
    shape[axis] = shape[axis] + next.getDim(axis);
  }
  return inference.add(shape, first.getElementType());
}

//===----------------------------------------------------------------------===//
// Gathering and scattering
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// Along axes
//===----------------------------------------------------------------------===//

MAESTRO_INFER(CumsumOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX());
  if (failed(inference.checkAxis(static_cast<int64_t>(adaptor.getAxis()), x)))
    return failure();
  if (x.isBool())
    return inference.fail("x must be numbers, is i1");
  return inference.add(x);
}

static LogicalResult inferArg(Inference inference, TensorType x, int64_t axis) {
  if (failed(inference.checkAxis(axis, x)))
    return failure();
  SmallVector<DimExpr> shape(x.getShape());
  shape[axis] = 1;
  return inference.add(shape, mlir::IntegerType::get(x.getContext(), 64));
}

MAESTRO_INFER(ArgMaxOp) {
  return inferArg({getOperationName(), location, types}, tensorOf(adaptor.getX()),
                  static_cast<int64_t>(adaptor.getAxis()));
}
MAESTRO_INFER(ArgMinOp) {
  return inferArg({getOperationName(), location, types}, tensorOf(adaptor.getX()),
                  static_cast<int64_t>(adaptor.getAxis()));
}

static LogicalResult inferReduce(Inference inference, TensorType x, llvm::ArrayRef<int64_t> axes, bool keepdims) {
  SmallVector<bool> reduced(x.getRank(), false);
  for (int64_t axis : axes) {
    if (failed(inference.checkAxis(axis, x)))
      return failure();
    if (std::exchange(reduced[axis], true))
      return inference.fail("axis " + Twine(axis) + " is named twice");
  }
  SmallVector<DimExpr> shape;
  for (int64_t dim = 0; dim < x.getRank(); ++dim)
    if (!reduced[dim] || keepdims)
      shape.push_back(reduced[dim] ? DimExpr(1) : x.getDim(dim));
  return inference.add(shape, x.getElementType());
}

#define MAESTRO_INFER_REDUCE(OpTy)                                                                                     \
  MAESTRO_INFER(OpTy) {                                                                                                \
    return inferReduce({getOperationName(), location, types}, tensorOf(adaptor.getX()), adaptor.getAxes(),             \
                       adaptor.getKeepdims());                                                                         \
  }
MAESTRO_INFER_REDUCE(ReduceSumOp)
MAESTRO_INFER_REDUCE(ReduceMeanOp)
MAESTRO_INFER_REDUCE(ReduceMaxOp)
MAESTRO_INFER_REDUCE(ReduceMinOp)
MAESTRO_INFER_REDUCE(ReduceProdOp)

} // namespace maestro::nn
