// Ranges of elements: interval arithmetic of the elementwise operators, and of positions.
#include "passes/padding.h"

#include <cmath>

using namespace mlir;

namespace maestro::padding {
namespace {

double total(double a, double b, double ifUndefined) {
  double sum = a + b;
  return std::isnan(sum) ? ifUndefined : sum;
}

/// A masked score stays as masked whatever of ordinary size is added.
Range add(Range a, Range b) {
  Range sum{total(a.low, b.low, -kInfinity), total(a.high, b.high, kInfinity)};
  if (double masked = std::min(a.high, b.high); masked <= kMasked)
    sum.high = std::min(sum.high, masked);
  return sum;
}

Range negate(Range a) { return {-a.high, -a.low}; }

Range multiply(Range a, Range b) {
  Range product{kInfinity, -kInfinity};
  for (double x : {a.low, a.high})
    for (double y : {b.low, b.high}) {
      double each = x == 0 || y == 0 ? 0 : x * y; // Values are finite.
      product = product.with(Range::point(each));
    }
  return product;
}

Range divide(Range a, Range b) {
  if (a.is(0))
    return a;
  return b.isPoint() && b.low != 0 && std::isfinite(b.low) ? multiply(a, Range::point(1 / b.low)) : Range();
}

Range truth(bool always, bool never) { return {always ? 1.0 : 0.0, never ? 0.0 : 1.0}; }
Range less(Range a, Range b) { return truth(a.high < b.low, a.low >= b.high); }
Range lessEqual(Range a, Range b) { return truth(a.high <= b.low, a.low > b.high); }
Range equal(Range a, Range b) { return truth(a.isPoint() && b.is(a.low), a.high < b.low || a.low > b.high); }

Range isNotZero(Range a) { return truth(a.low > 0 || a.high < 0, a.is(0)); }

/// f of an increasing function.
template <typename Function> Range increasing(Range a, Function f) { return {f(a.low), f(a.high)}; }

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double relu(double x) { return std::max(x, 0.0); }

Range convert(nn::CastOp op, Range a) {
  Type from = nn::typeOf(op.getX()).getElementType(), to = nn::typeOf(op.getY()).getElementType();
  if (to.isInteger(1))
    return isNotZero(a);
  bool cuts = isa<FloatType>(from) && !isa<FloatType>(to);
  return cuts ? increasing(a, [](double x) { return std::trunc(x); }) : a;
}

std::optional<Range> evaluateUnary(Operation *op, Range a) {
  if (auto cast = dyn_cast<nn::CastOp>(op))
    return convert(cast, a);
  if (isa<nn::DetachOp, nn::BroadcastToOp, nn::DropoutOp>(op))
    return isa<nn::DropoutOp>(op) && !a.is(0) ? Range() : a;
  if (isa<nn::NegOp>(op))
    return negate(a);
  if (isa<nn::NotOp>(op))
    return add(Range::point(1), negate(a));
  if (isa<nn::ExpOp>(op))
    return a.high <= kMasked ? Range::point(0) : increasing(a, [](double x) { return std::exp(x); });
  if (isa<nn::SigmoidOp>(op))
    return a.high <= kMasked ? Range::point(0) : increasing(a, sigmoid);
  if (isa<nn::TanhOp>(op))
    return increasing(a, [](double x) { return std::tanh(x); });
  if (isa<nn::ReluOp>(op))
    return increasing(a, relu);
  if (isa<nn::FloorOp>(op))
    return increasing(a, [](double x) { return std::floor(x); });
  if (isa<nn::CeilOp>(op))
    return increasing(a, [](double x) { return std::ceil(x); });
  if (isa<nn::AbsOp>(op)) {
    Range other = negate(a);
    return Range{a.low <= 0 && a.high >= 0 ? 0 : std::min(std::abs(a.low), std::abs(a.high)),
                 std::max(a.high, other.high)};
  }
  if (isa<nn::SqrtOp>(op) && a.low >= 0)
    return increasing(a, [](double x) { return std::sqrt(x); });
  if (isa<nn::SinOp, nn::GeluOp, nn::SiluOp, nn::ErfOp, nn::SignOp>(op) && a.is(0))
    return a;
  if (isa<nn::IsNaNOp>(op) && a.isPoint())
    return Range::point(0);
  return std::nullopt;
}

std::optional<Range> evaluateBinary(Operation *op, Range a, Range b) {
  if (isa<nn::AddOp>(op))
    return add(a, b);
  if (isa<nn::SubOp>(op))
    return add(a, negate(b));
  if (isa<nn::MulOp>(op))
    return multiply(a, b);
  if (isa<nn::GluOp>(op))
    return multiply(a.is(0) ? a : Range(), b);
  if (isa<nn::DivOp>(op))
    return divide(a, b);
  if (isa<nn::MaximumOp>(op))
    return Range{std::max(a.low, b.low), std::max(a.high, b.high)};
  if (isa<nn::MinimumOp>(op))
    return Range{std::min(a.low, b.low), std::min(a.high, b.high)};
  if (isa<nn::AndOp>(op))
    return Range{std::min(a.low, b.low), std::min(a.high, b.high)};
  if (isa<nn::OrOp>(op))
    return Range{std::max(a.low, b.low), std::max(a.high, b.high)};
  if (isa<nn::LessOp>(op))
    return less(a, b);
  if (isa<nn::LessEqualOp>(op))
    return lessEqual(a, b);
  if (isa<nn::GreaterOp>(op))
    return less(b, a);
  if (isa<nn::GreaterEqualOp>(op))
    return lessEqual(b, a);
  if (isa<nn::EqualOp>(op))
    return equal(a, b);
  if (isa<nn::XorOp>(op) && a.isPoint() && b.isPoint())
    return Range::point(a.low != b.low);
  return std::nullopt;
}

} // namespace

Range allOf(Type elementType) { return elementType.isInteger(1) ? Range{0, 1} : Range(); }

Range evaluate(Operation *op, llvm::ArrayRef<Range> operands) {
  std::optional<Range> range;
  if (isa<nn::WhereOp>(op))
    range = operands[0].is(1) ? operands[1] : operands[0].is(0) ? operands[2] : operands[1].with(operands[2]);
  else if (operands.size() == 1 || isa<nn::DropoutOp>(op))
    range = evaluateUnary(op, operands[0]);
  else if (operands.size() == 2)
    range = evaluateBinary(op, operands[0], operands[1]);
  Range all = allOf(nn::typeOf(op->getResult(0)).getElementType());
  return range ? Range{std::max(range->low, all.low), std::min(range->high, all.high)} : all;
}

Range positions(const Tensor &tensor) {
  bool rises = false, falls = false;
  for (const Axis &axis : tensor.axes) {
    rises |= axis.coefficient > 0;
    falls |= axis.coefficient < 0;
  }
  double offset = static_cast<double>(*tensor.offset);
  return {falls ? -kInfinity : offset, rises ? kInfinity : offset};
}

/// The least of offset + Σ sign·coefficient·position behind the end of `axis`: positions p ≥ right there, while those
/// of axes of the same length are at most p − 1.
static double leastBehind(const Tensor &tensor, const Axis &axis, int64_t sign) {
  int64_t own = sign * axis.coefficient, falling = 0;
  int64_t first = std::max<int64_t>(axis.right.lowerBound().value_or(0), 0);
  for (const Axis &other : tensor.axes) {
    int64_t coefficient = sign * other.coefficient;
    if (&other == &axis || coefficient >= 0)
      continue;
    if (!(other.right == axis.right))
      return -kInfinity;
    falling += coefficient;
    first = std::max<int64_t>(first, 1);
  }
  if (own < 0 || own + falling < 0)
    return -kInfinity;
  return static_cast<double>(sign * *tensor.offset + own * first + falling * (falling ? first - 1 : 0));
}

Range positionsBehind(const Tensor &tensor, const Axis &axis) {
  return {leastBehind(tensor, axis, 1), -leastBehind(tensor, axis, -1)};
}

} // namespace maestro::padding
