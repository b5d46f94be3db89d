// What is known of values at plan time; see nn.h.
#include "ir/nn/nn.h"

#include <cmath>

using namespace mlir;

namespace maestro::nn {

/// `value` as an element of that type, rounded or cut off as nn.cast does.
static double castTo(Type type, double value) {
  if (type.isInteger(1))
    return value != 0;
  auto floating = llvm::dyn_cast<FloatType>(type);
  if (!floating)
    return std::trunc(value);
  APFloat number(value);
  bool lossy;
  number.convert(floating.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
  return number.convertToDouble();
}

/// The one value of a splat.
static std::optional<double> splatValue(ElementsAttr attribute) {
  auto elements = llvm::dyn_cast<DenseElementsAttr>(attribute);
  if (!elements || elements.empty() || !elements.isSplat())
    return std::nullopt;
  if (llvm::isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  APInt number = elements.getSplatValue<APInt>();
  return elements.getElementType().isInteger(1) ? double(number.getZExtValue()) : double(number.getSExtValue());
}

std::optional<double> constantValue(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return std::nullopt;
  if (op->hasTrait<Rearranges>())
    return constantValue(op->getOperand(0));
  if (auto fill = llvm::dyn_cast<FillOp>(op))
    return fill.getValue().convertToDouble();
  if (auto constant = llvm::dyn_cast<ConstantOp>(op))
    return splatValue(constant.getValue());
  auto cast = llvm::dyn_cast<CastOp>(op);
  std::optional<double> from = cast ? constantValue(cast.getX()) : std::nullopt;
  return from ? std::optional(castTo(typeOf(value).getElementType(), *from)) : std::nullopt;
}

BlockArgument argumentBehind(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!llvm::isa<CastOp, ReshapeOp, TransposeOp>(op))
      return {};
    value = op->getOperand(0);
  }
  return llvm::cast<BlockArgument>(value);
}

} // namespace maestro::nn
