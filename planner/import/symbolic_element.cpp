// What the elements of folded tensors compute.
#include "planner/import/symbolic_element.h"

#include <algorithm>
#include <cmath>

namespace maestro::planner {
namespace {

FoldedElement truth(bool value) { return DimExpr(value ? 1 : 0); }

/// a < b and so on where it is known for every value of the symbols.
std::optional<FoldedElement> compareDims(FoldedBinary op, const DimExpr &a, const DimExpr &b) {
  auto atLeast = [](const DimExpr &x, const DimExpr &y, int64_t by) {
    auto bound = (x - y).lowerBound();
    return bound && *bound >= by;
  };
  bool less = atLeast(b, a, 1), greater = atLeast(a, b, 1);
  bool lessEqual = atLeast(b, a, 0), greaterEqual = atLeast(a, b, 0);
  switch (op) {
  case FoldedBinary::Equal:
    if (a == b)
      return truth(true);
    return less || greater ? std::optional(truth(false)) : std::nullopt;
  case FoldedBinary::Less:
    return less ? std::optional(truth(true)) : greaterEqual ? std::optional(truth(false)) : std::nullopt;
  case FoldedBinary::LessEqual:
    return lessEqual ? std::optional(truth(true)) : greater ? std::optional(truth(false)) : std::nullopt;
  case FoldedBinary::Greater:
    return greater ? std::optional(truth(true)) : lessEqual ? std::optional(truth(false)) : std::nullopt;
  default:
    return greaterEqual ? std::optional(truth(true)) : less ? std::optional(truth(false)) : std::nullopt;
  }
}

/// Truncated division, which for what dims are (never negative) is floor division.
std::optional<FoldedElement> divideDims(const DimExpr &a, const DimExpr &b) {
  auto divisor = b.asConstant();
  if (divisor == 0)
    return std::nullopt;
  auto x = a.asConstant();
  if (x && divisor)
    return *divisor == -1 ? FoldedElement(-a) : FoldedElement(DimExpr(*x / *divisor));
  if (auto exact = a.exactQuotient(b))
    return FoldedElement(*exact);
  auto low = a.lowerBound(), lowDivisor = b.lowerBound();
  if (low && *low >= 0 && lowDivisor && *lowDivisor > 0)
    return FoldedElement(DimExpr::floorDiv(a, b));
  return std::nullopt;
}

std::optional<FoldedElement> moduloDims(FoldedBinary op, const DimExpr &a, const DimExpr &b) {
  auto x = a.asConstant(), y = b.asConstant();
  if (y == 0)
    return std::nullopt;
  if (x && y) {
    if (*y == -1)
      return FoldedElement(DimExpr(0));
    int64_t remainder = *x % *y;
    if (op == FoldedBinary::Mod && remainder != 0 && (remainder < 0) != (*y < 0))
      remainder += *y;
    return FoldedElement(DimExpr(remainder));
  }
  // With the divisor's sign, or of what is never negative: the remainder of floor division.
  auto low = a.lowerBound(), lowDivisor = b.lowerBound();
  if (lowDivisor && *lowDivisor > 0 && (op == FoldedBinary::Mod || (low && *low >= 0)))
    return FoldedElement(DimExpr::mod(a, b));
  return std::nullopt;
}

std::optional<FoldedElement> powerDims(const DimExpr &a, const DimExpr &b) {
  auto exponent = b.asConstant();
  if (!exponent || *exponent < 0 || *exponent > 4)
    return std::nullopt;
  DimExpr result(1);
  for (int64_t i = 0; i < *exponent; ++i)
    result = result * a;
  return FoldedElement(result);
}

std::optional<FoldedElement> combineDims(FoldedBinary op, const DimExpr &a, const DimExpr &b) {
  switch (op) {
  case FoldedBinary::Add:
    return FoldedElement(a + b);
  case FoldedBinary::Sub:
    return FoldedElement(a - b);
  case FoldedBinary::Mul:
    return FoldedElement(a * b);
  case FoldedBinary::Div:
    return divideDims(a, b);
  case FoldedBinary::Mod:
  case FoldedBinary::FMod:
    return moduloDims(op, a, b);
  case FoldedBinary::Pow:
    return powerDims(a, b);
  case FoldedBinary::Min:
    return FoldedElement(smaller(a, b));
  case FoldedBinary::Max:
    return FoldedElement(larger(a, b));
  case FoldedBinary::And:
  case FoldedBinary::Or:
  case FoldedBinary::Xor: {
    auto x = a.asConstant(), y = b.asConstant();
    if (!x || !y)
      return std::nullopt;
    bool p = *x != 0, q = *y != 0;
    return truth(op == FoldedBinary::And ? p && q : op == FoldedBinary::Or ? p || q : p != q);
  }
  default:
    return compareDims(op, a, b);
  }
}

std::optional<FoldedElement> combineReals(FoldedBinary op, double a, double b) {
  switch (op) {
  case FoldedBinary::Add:
    return a + b;
  case FoldedBinary::Sub:
    return a - b;
  case FoldedBinary::Mul:
    return a * b;
  case FoldedBinary::Div:
    return a / b;
  case FoldedBinary::FMod:
    return std::fmod(a, b);
  case FoldedBinary::Pow:
    return std::pow(a, b);
  case FoldedBinary::Min:
    return std::isnan(a) || a < b ? a : b;
  case FoldedBinary::Max:
    return std::isnan(a) || a > b ? a : b;
  case FoldedBinary::Equal:
    return truth(a == b);
  case FoldedBinary::Less:
    return truth(a < b);
  case FoldedBinary::LessEqual:
    return truth(a <= b);
  case FoldedBinary::Greater:
    return truth(a > b);
  case FoldedBinary::GreaterEqual:
    return truth(a >= b);
  default:
    return std::nullopt;
  }
}

/// In floating point an exact integer stays exact under these only.
bool exactInFloat(FoldedBinary op) {
  return op == FoldedBinary::Add || op == FoldedBinary::Sub || op == FoldedBinary::Mul || op == FoldedBinary::Min ||
         op == FoldedBinary::Max || isComparison(op);
}

std::optional<FoldedElement> combineUnaryReal(FoldedUnary op, double x) {
  switch (op) {
  case FoldedUnary::Neg:
    return -x;
  case FoldedUnary::Abs:
    return std::fabs(x);
  case FoldedUnary::Floor:
    return std::floor(x);
  case FoldedUnary::Ceil:
    return std::ceil(x);
  case FoldedUnary::Round:
    return std::nearbyint(x);
  case FoldedUnary::Sign:
    return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
  case FoldedUnary::Sqrt:
    return std::sqrt(x);
  case FoldedUnary::Reciprocal:
    return 1 / x;
  case FoldedUnary::Exp:
    return std::exp(x);
  case FoldedUnary::Log:
    return std::log(x);
  default:
    return std::nullopt;
  }
}

std::optional<FoldedElement> combineUnaryDim(FoldedUnary op, const DimExpr &x) {
  auto low = x.lowerBound();
  auto constant = x.asConstant();
  switch (op) {
  case FoldedUnary::Neg:
    return FoldedElement(-x);
  case FoldedUnary::Abs:
    if (low && *low >= 0)
      return FoldedElement(x);
    return constant ? std::optional<FoldedElement>(larger(x, -x)) : std::nullopt;
  case FoldedUnary::Floor:
  case FoldedUnary::Ceil:
  case FoldedUnary::Round:
    return FoldedElement(x);
  case FoldedUnary::Sign:
    if (low && *low > 0)
      return FoldedElement(DimExpr(1));
    return constant ? std::optional<FoldedElement>(DimExpr(*constant > 0 ? 1 : *constant < 0 ? -1 : 0)) : std::nullopt;
  case FoldedUnary::Not:
    return constant ? std::optional(truth(*constant == 0)) : std::nullopt;
  default:
    return std::nullopt;
  }
}

} // namespace

std::optional<double> numberOf(const FoldedElement &element) {
  if (auto *real = std::get_if<double>(&element))
    return *real;
  if (auto constant = std::get<DimExpr>(element).asConstant())
    return static_cast<double>(*constant);
  return std::nullopt;
}

bool isComparison(FoldedBinary op) { return op >= FoldedBinary::Equal && op <= FoldedBinary::GreaterEqual; }

std::optional<DimExpr> integerOf(const FoldedElement &element) {
  if (auto *dim = std::get_if<DimExpr>(&element))
    return *dim;
  double real = std::get<double>(element);
  if (std::trunc(real) == real && std::fabs(real) < 0x1p53)
    return DimExpr(static_cast<int64_t>(real));
  return std::nullopt;
}

std::optional<FoldedElement> combine(FoldedBinary op, DType dtype, const FoldedElement &a, const FoldedElement &b) {
  if (!isFloat(dtype))
    return combineDims(op, std::get<DimExpr>(a), std::get<DimExpr>(b));
  auto x = numberOf(a), y = numberOf(b);
  if (x && y) {
    auto result = combineReals(op, *x, *y);
    if (result && std::holds_alternative<double>(*result))
      return FoldedElement(roundTo(dtype, std::get<double>(*result)));
    return result;
  }
  auto p = integerOf(a), q = integerOf(b);
  bool isSign = op == FoldedBinary::Div && q && (q->isConstant(1) || q->isConstant(-1));
  if (!p || !q || !(exactInFloat(op) || isSign))
    return std::nullopt;
  return combineDims(op, *p, *q);
}

FoldedElement wrapped(DType dtype, FoldedElement element) {
  auto *dim = std::get_if<DimExpr>(&element);
  auto constant = dim ? dim->asConstant() : std::nullopt;
  if (!constant)
    return element;
  switch (dtype) {
  case DType::I32:
    return DimExpr(static_cast<int32_t>(*constant));
  case DType::I16:
    return DimExpr(static_cast<int16_t>(*constant));
  case DType::I8:
    return DimExpr(static_cast<int8_t>(*constant));
  case DType::U8:
    return DimExpr(static_cast<uint8_t>(*constant));
  default:
    return element;
  }
}

std::optional<FoldedElement> combineUnary(FoldedUnary op, DType dtype, const FoldedElement &x) {
  if (isFloat(dtype)) {
    if (auto number = numberOf(x)) {
      auto result = combineUnaryReal(op, *number);
      return result ? std::optional<FoldedElement>(roundTo(dtype, std::get<double>(*result))) : std::nullopt;
    }
    if (op == FoldedUnary::Sqrt || op == FoldedUnary::Reciprocal)
      return std::nullopt;
  }
  auto dim = integerOf(x);
  return dim ? combineUnaryDim(op, *dim) : std::nullopt;
}

std::optional<FoldedElement> castElement(const FoldedElement &element, DType from, DType to) {
  if (isFloat(to)) {
    if (auto number = numberOf(element))
      return FoldedElement(roundTo(to, *number));
    return to == DType::F32 || to == DType::F64 ? std::optional(element) : std::nullopt;
  }
  if (to == DType::Bool) {
    if (auto number = numberOf(element))
      return truth(*number != 0);
    auto low = std::get<DimExpr>(element).lowerBound();
    return low && *low > 0 ? std::optional(truth(true)) : std::nullopt;
  }
  if (auto *dim = std::get_if<DimExpr>(&element))
    return wrapped(to, *dim);
  double real = std::trunc(std::get<double>(element));
  if (!(std::fabs(real) < 0x1p53))
    return std::nullopt;
  return wrapped(to, DimExpr(static_cast<int64_t>(real)));
}

double roundTo(DType dtype, double value) {
  switch (dtype) {
  case DType::F32:
    return static_cast<float>(value);
  case DType::BF16:
    return static_cast<float>(BFloat16(static_cast<float>(value)));
  case DType::F16:
    return halfToFloat(floatToHalf(static_cast<float>(value)));
  default:
    return value;
  }
}

DimExpr smaller(const DimExpr &a, const DimExpr &b) {
  auto gap = (b - a).lowerBound(), other = (a - b).lowerBound();
  if (gap && *gap >= 0)
    return a;
  if (other && *other >= 0)
    return b;
  return DimExpr::min(a, b);
}

DimExpr larger(const DimExpr &a, const DimExpr &b) {
  DimExpr least = smaller(a, b);
  if (least == a)
    return b;
  return least == b ? a : DimExpr::max(a, b);
}

DimExpr clampDim(const DimExpr &value, const DimExpr &low, const DimExpr &high) {
  return larger(low, smaller(value, high));
}

} // namespace maestro::planner
