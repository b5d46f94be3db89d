#include "passes/raise_matchers.h"

#include <cmath>

using namespace mlir;

namespace maestro::raise {

bool isUniform(Value value, double expected) {
  std::optional<double> constant = nn::constantValue(value);
  return constant && std::abs(*constant - expected) <= 1e-6 * std::max(1.0, std::abs(expected));
}

WithConstant scaledValue(Value value) {
  if (auto product = withConstant<nn::MulOp>(value))
    return *product;
  if (auto quotient = value.getDefiningOp<nn::DivOp>())
    if (auto divisor = nn::constantValue(quotient.getRhs()); divisor && *divisor != 0)
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
