#include "passes/raise_matchers.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <cmath>

using namespace mlir;

namespace maestro::raise {

std::optional<double> uniformConstant(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<nn::ReshapeOp, nn::BroadcastToOp, nn::CastOp>(op)) {
      value = op->getOperand(0);
      continue;
    }
    if (auto fill = dyn_cast<nn::FillOp>(op))
      return fill.getValue().convertToDouble();
    auto constant = dyn_cast<nn::ConstantOp>(op);
    auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    if (!elements || elements.empty() || !elements.isSplat())
      return std::nullopt;
    if (isa<FloatType>(elements.getElementType())) {
      llvm::APFloat number = elements.getSplatValue<llvm::APFloat>();
      return number.convertToDouble();
    }
    if (elements.getElementType().isInteger(1))
      return elements.getSplatValue<bool>() ? 1.0 : 0.0;
    return static_cast<double>(elements.getSplatValue<llvm::APInt>().getSExtValue());
  }
  return std::nullopt;
}

bool isUniform(Value value, double expected) {
  std::optional<double> constant = uniformConstant(value);
  return constant && std::abs(*constant - expected) <= 1e-6 * std::max(1.0, std::abs(expected));
}

WithConstant scaledValue(Value value) {
  if (auto product = withConstant<nn::MulOp>(value))
    return *product;
  if (auto quotient = value.getDefiningOp<nn::DivOp>())
    if (auto divisor = uniformConstant(quotient.getRhs()); divisor && *divisor != 0)
      return {quotient.getLhs(), 1.0 / *divisor};
  return {value, 1.0};
}

Value throughWidening(Value value) {
  while (auto cast = value.getDefiningOp<nn::CastOp>()) {
    Type from = elementOf(cast.getX()), to = elementOf(cast.getY());
    bool widens =
        isa<FloatType>(from) && isa<FloatType>(to) && to.getIntOrFloatBitWidth() >= from.getIntOrFloatBitWidth();
    if (!widens)
      break;
    value = cast.getX();
  }
  return value;
}

} // namespace maestro::raise
