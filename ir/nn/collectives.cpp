// All answers of the collectives. Their rules are those of other mesh axes: along their own axis passes know them.
#include "ir/nn/infer.h"
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

MAESTRO_INFER(AllReduceOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX());
  if (!x.getElementType().isF32())
    return inference.fail("x must have element type f32: parts are rounded once, after they were added");
  return inference.add(x);
}

/// `x` with `dim` taken times or divided by the number of devices.
static llvm::LogicalResult inferParts(const Inference &inference, TensorType x, int64_t dim, int64_t count, bool joins,
                                      llvm::SmallVectorImpl<DimExpr> &shape) {
  if (mlir::failed(inference.checkAxis(dim, x)))
    return mlir::failure();
  if (count < 1)
    return inference.fail("count must be at least 1");
  shape.assign(x.getShape().begin(), x.getShape().end());
  std::optional<DimExpr> size = joins ? std::optional(shape[dim] * count) : shape[dim].exactQuotient(count);
  if (!size)
    return inference.fail("dim " + llvm::Twine(dim) + " of " + shapeText(shape) + " cannot be cut in " +
                          llvm::Twine(count));
  shape[dim] = *size;
  return mlir::success();
}

#define MAESTRO_INFER_PARTS(OpTy, joins)                                                                               \
  MAESTRO_INFER(OpTy) {                                                                                                \
    Inference inference(getOperationName(), location, types);                                                          \
    llvm::SmallVector<DimExpr> shape;                                                                                  \
    TensorType x = tensorOf(adaptor.getX());                                                                           \
    if (mlir::failed(inferParts(inference, x, static_cast<int64_t>(adaptor.getDim()),                                  \
                                static_cast<int64_t>(adaptor.getCount()), joins, shape)))                              \
      return mlir::failure();                                                                                          \
    return inference.add(shape, x.getElementType());                                                                   \
  }
MAESTRO_INFER_PARTS(AllGatherOp, true)
MAESTRO_INFER_PARTS(OwnPartOp, false)

FactorRule AllReduceOp::getFactorRule() { return elementwiseFactorRule(*this); }
bool AllReduceOp::canReuse(unsigned, unsigned) { return true; }

/// All dims but the one that is joined or cut.
static FactorRule partsRule(mlir::Operation *op, unsigned dim) {
  RuleBuilder builder(op);
  builder.operand(0) = builder.result(0) = builder.factors(builder.resultShape(0));
  builder.unrelated(0, dim, 0, dim);
  return builder.take();
}

FactorRule AllGatherOp::getFactorRule() { return partsRule(*this, getDim()); }
FactorRule OwnPartOp::getFactorRule() { return partsRule(*this, getDim()); }

} // namespace maestro::nn
