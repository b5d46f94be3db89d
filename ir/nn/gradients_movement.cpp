// Gradients of operators that move data: each is the transposed movement, adding where one element
// was read several times.
#include "ir/nn/gradient_attributes.h"
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {
namespace {

/// The only gradient that arrives, or null when the single operand `x` wants none.
Value arriving(ValueRange resultGradients, ArrayRef<bool> needed, Value x) {
  return needed[0] && isFloatTensor(x) ? resultGradients[0] : Value();
}

LogicalResult unsupportedReduction(Operation *op, StringRef reduction) {
  return op->emitOpError() << "with reduction '" << reduction << "' has no gradient; only 'none' and 'add' have one";
}

} // namespace

LogicalResult ReshapeOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                       SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getX()))
    operandGradients[0] = b.reshape(dy, shapeOf(getX()));
  return success();
}

LogicalResult TransposeOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                         SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  Value dy = arriving(resultGradients, needed, getX());
  if (!dy)
    return success();
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [to, from] : llvm::enumerate(getPermutation()))
    inverse[from] = to;
  operandGradients[0] = GradientBuilder(*this, builder).emit<TransposeOp>(dy, inverse);
  return success();
}

LogicalResult BroadcastToOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                           SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getX()))
    operandGradients[0] = b.sumTo(dy, typeOf(getX()));
  return success();
}

LogicalResult ConcatOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                      SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(getNumOperands(), Value());
  Value dy = resultGradients[0];
  if (!dy || !isFloatTensor(getResult()))
    return success();
  GradientBuilder b(*this, builder);
  SmallVector<DimExpr> offsets(rankOf(getResult()));
  SmallVector<int64_t> steps(rankOf(getResult()), 1);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    if (needed[i])
      operandGradients[i] = b.emit<SliceOp>(input.getType(), dy, DimsAttr::get(getContext(), offsets), steps);
    offsets[getAxis()] = offsets[getAxis()] + shapeOf(input)[getAxis()];
  }
  return success();
}

LogicalResult SliceOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                     SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getX()))
    operandGradients[0] = b.emit<SliceGradOp>(getX().getType(), dy, getOffsetsAttr(), getStepsAttr());
  return success();
}

LogicalResult PadOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                   SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  Value dy = arriving(resultGradients, needed, getX());
  if (!dy)
    return success();
  if (getMode() != "constant")
    return emitOpError() << "in mode '" << getMode() << "' has no gradient; only mode 'constant' has one";
  SmallVector<int64_t> steps(rankOf(getX()), 1);
  operandGradients[0] = GradientBuilder(*this, builder).emit<SliceOp>(getX().getType(), dy, getLowAttr(), steps);
  return success();
}

LogicalResult GatherOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                      SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(2, Value());
  GradientBuilder b(*this, builder);
  Value dy = arriving(resultGradients, needed, getData());
  if (!dy)
    return success();
  if (auto index = (*this)->getAttrOfType<IntegerAttr>(kPaddingIndex)) {
    llvm::SmallVector<DimExpr> shape(shapeOf(getIndices()));
    shape.resize(rankOf(dy) - static_cast<int64_t>(getAxis()),
                 DimExpr(1)); // Broadcasts over what comes before and after.
    Value indices = b.reshape(getIndices(), shape);
    Value isPadding = b.emit<EqualOp>(indices, b.scalar(indices, static_cast<double>(index.getInt())));
    dy = b.emit<WhereOp>(isPadding, b.scalar(dy, 0.0), dy);
  }
  operandGradients[0] = b.emit<GatherGradOp>(getData().getType(), getIndices(), dy, getAxisAttr());
  return success();
}

LogicalResult GatherElementsOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                              SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(2, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getData()))
    operandGradients[0] =
        b.emit<ScatterElementsOp>(b.zeros(typeOf(getData())), getIndices(), dy, getAxisAttr(), b.getStringAttr("add"));
  return success();
}

LogicalResult ScatterElementsOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                               SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(3, Value());
  Value dy = resultGradients[0];
  if (!dy || !isFloatTensor(getData()))
    return success();
  if (getReduction() != "none" && getReduction() != "add")
    return unsupportedReduction(*this, getReduction());
  GradientBuilder b(*this, builder);
  if (needed[0])
    operandGradients[0] = getReduction() == "add"
                              ? dy
                              : b.emit<ScatterElementsOp>(dy, getIndices(), b.zeros(typeOf(getUpdates())),
                                                          getAxisAttr(), b.getStringAttr("none"));
  if (needed[2])
    operandGradients[2] = b.emit<GatherElementsOp>(dy, getIndices(), getAxisAttr());
  return success();
}

LogicalResult GatherNDOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                        SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(2, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getData()))
    operandGradients[0] = b.emit<GatherNDGradOp>(getData().getType(), getIndices(), dy, getBatchDimsAttr());
  return success();
}

LogicalResult ScatterNDOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                         SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(3, Value());
  Value dy = resultGradients[0];
  if (!dy || !isFloatTensor(getData()))
    return success();
  if (getReduction() != "none" && getReduction() != "add")
    return unsupportedReduction(*this, getReduction());
  GradientBuilder b(*this, builder);
  if (needed[0])
    operandGradients[0] = getReduction() == "add" ? dy
                                                  : b.emit<ScatterNDOp>(dy, getIndices(), b.zeros(typeOf(getUpdates())),
                                                                        b.getStringAttr("none"));
  if (needed[2])
    operandGradients[2] = b.emit<GatherNDOp>(dy, getIndices(), b.getI64IntegerAttr(0));
  return success();
}

LogicalResult MaskedScatterOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                             SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(3, Value());
  Value dy = resultGradients[0];
  if (!dy || !isFloatTensor(getX()))
    return success();
  GradientBuilder b(*this, builder);
  if (needed[0])
    operandGradients[0] = b.emit<WhereOp>(getMask(), b.scalar(dy, 0.0), dy);
  if (needed[2])
    operandGradients[2] = b.emit<MaskedScatterGradOp>(getSource().getType(), getMask(), dy);
  return success();
}

LogicalResult CumsumOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                      SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getX()))
    operandGradients[0] = b.emit<CumsumOp>(dy, getAxisAttr(), getExclusiveAttr(), b.getBoolAttr(!getReverse()));
  return success();
}

LogicalResult TopKOp::buildGradient(OpBuilder &builder, ValueRange resultGradients, ArrayRef<bool> needed,
                                    SmallVectorImpl<Value> &operandGradients) {
  operandGradients.assign(1, Value());
  Value dvalues = arriving(resultGradients, needed, getX());
  if (!dvalues)
    return success();
  GradientBuilder b(*this, builder);
  operandGradients[0] =
      b.emit<ScatterElementsOp>(b.zeros(typeOf(getX())), getIndices(), dvalues, getAxisAttr(), b.getStringAttr("none"));
  return success();
}

} // namespace maestro::nn
