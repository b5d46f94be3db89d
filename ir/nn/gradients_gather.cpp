// Gradients of gathering and scattering: each is the other, adding where one element was read several times.
#include "ir/nn/gradient_attributes.h"
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {

static LogicalResult unsupportedReduction(Operation *op, StringRef reduction) {
  return op->emitOpError() << "with reduction '" << reduction
                           << "' has no gradient; only 'none', 'add', 'max' and 'min' have one";
}

namespace {
/// A scatter with reduction max or min: elements of data and of updates that equal the result share its gradient
/// equally.
template <typename Gather, typename Scatter>
void sharedExtremes(Operation *op, OpBuilder &builder, Value dy, ArrayRef<bool> needed,
                    SmallVectorImpl<Value> &gradients, Gather gatherAt, Scatter addAt) {
  GradientBuilder b(op, builder);
  Value data = op->getOperand(0), updates = op->getOperand(2), result = op->getResult(0);
  Type element = typeOf(data).getElementType();
  Value dataIs = b.emit<EqualOp>(data, result), updateIs = b.emit<EqualOp>(updates, gatherAt(b, result));
  Value share = b.emit<DivOp>(dy, addAt(b, b.cast(dataIs, element), b.cast(updateIs, element)));
  if (needed[0])
    gradients[0] = b.emit<WhereOp>(dataIs, share, b.scalar(dy, 0.0));
  if (needed[2])
    gradients[2] = b.emit<WhereOp>(updateIs, gatherAt(b, share), b.scalar(dy, 0.0));
}

bool isExtreme(StringRef reduction) { return reduction == "max" || reduction == "min"; }
} // namespace

MAESTRO_GRADIENT(GatherOp) {
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

MAESTRO_GRADIENT(GatherElementsOp) {
  operandGradients.assign(2, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getData()))
    operandGradients[0] =
        b.emit<ScatterElementsOp>(b.zeros(typeOf(getData())), getIndices(), dy, getAxisAttr(), b.getStringAttr("add"));
  return success();
}

MAESTRO_GRADIENT(ScatterElementsOp) {
  operandGradients.assign(3, Value());
  Value dy = resultGradients[0];
  if (!dy || !isFloatTensor(getData()))
    return success();
  if (isExtreme(getReduction())) {
    sharedExtremes(
        *this, builder, dy, needed, operandGradients,
        [&](GradientBuilder &b, Value x) { return b.emit<GatherElementsOp>(x, getIndices(), getAxisAttr()); },
        [&](GradientBuilder &b, Value to, Value what) {
          return b.emit<ScatterElementsOp>(to, getIndices(), what, getAxisAttr(), b.getStringAttr("add"));
        });
    return success();
  }
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

MAESTRO_GRADIENT(GatherNDOp) {
  operandGradients.assign(2, Value());
  GradientBuilder b(*this, builder);
  if (Value dy = arriving(resultGradients, needed, getData()))
    operandGradients[0] = b.emit<GatherNDGradOp>(getData().getType(), getIndices(), dy, getBatchDimsAttr());
  return success();
}

MAESTRO_GRADIENT(ScatterNDOp) {
  operandGradients.assign(3, Value());
  Value dy = resultGradients[0];
  if (!dy || !isFloatTensor(getData()))
    return success();
  if (isExtreme(getReduction())) {
    sharedExtremes(
        *this, builder, dy, needed, operandGradients,
        [&](GradientBuilder &b, Value x) { return b.emit<GatherNDOp>(x, getIndices(), b.getI64IntegerAttr(0)); },
        [&](GradientBuilder &b, Value to, Value what) {
          return b.emit<ScatterNDOp>(to, getIndices(), what, b.getStringAttr("add"));
        });
    return success();
  }
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

MAESTRO_GRADIENT(MaskedScatterOp) {
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

} // namespace maestro::nn
