// Result types of pooling.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::LogicalResult;
using llvm::SmallVector;
using mlir::failed;
using mlir::failure;

LogicalResult poolShape(const Inference &inference, TensorType x, const Window &window,
                        llvm::SmallVectorImpl<DimExpr> &shape) {
  if (failed(inference.checkRank("x [N, C, spatial…]", x, 3, 5)))
    return failure();
  shape.append({x.getDim(0), x.getDim(1)});
  return windowShape(inference, x.getShape().drop_front(2), window, shape);
}

template <typename Adaptor> static LogicalResult inferPool(Inference inference, Adaptor adaptor) {
  TensorType x = tensorOf(adaptor.getX());
  SmallVector<DimExpr> shape;
  if (failed(poolShape(inference, x, poolWindowOf(adaptor), shape)))
    return failure();
  return inference.add(shape, x.getElementType());
}

MAESTRO_INFER(MaxPoolOp) { return inferPool({getOperationName(), location, types}, adaptor); }

MAESTRO_INFER(AvgPoolOp) {
  Inference inference(getOperationName(), location, types);
  if (failed(inference.checkFloat("x", tensorOf(adaptor.getX()))))
    return failure();
  return inferPool(inference, adaptor);
}

} // namespace maestro::nn
