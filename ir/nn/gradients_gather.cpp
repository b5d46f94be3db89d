// Gradients of gathering and scattering: each is the other, adding where one element was read several times.
#include "ir/nn/gradient_attributes.h"
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {

static LogicalResult unsupportedReduction(Operation *op, StringRef reduction) {
  return op->emitOpError() << "with reduction '" << reduction << "' has no gradient; only 'none' and 'add' have one";
}

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
