// Result types of reductions, and of what runs along an axis.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::LogicalResult;
using llvm::SmallVector;
using llvm::Twine;
using mlir::failed;
using mlir::failure;

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
