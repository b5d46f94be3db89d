// Result types of operators that move data.
#include "ir/nn/infer.h"

namespace maestro::nn {

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

} // namespace maestro::nn
