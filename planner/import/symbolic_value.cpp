#include "planner/import/symbolic_value.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace maestro::planner {
namespace {

bool fits(int64_t elements) { return elements <= kMaxFoldedElements; }

int64_t product(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape) {
    if (dim != 0 && count > kMaxFoldedElements * 2)
      return count;
    count *= dim;
  }
  return count;
}

/// Calls `visit(multi-index)` in row-major order.
template <typename Visit> void forEachIndex(std::span<const int64_t> shape, Visit visit) {
  if (product(shape) == 0)
    return;
  std::vector<int64_t> index(shape.size(), 0);
  while (true) {
    visit(std::span<const int64_t>(index));
    size_t dim = shape.size();
    while (dim > 0 && ++index[dim - 1] == shape[dim - 1])
      index[--dim] = 0;
    if (dim == 0)
      return;
  }
}

int64_t linear(std::span<const int64_t> shape, std::span<const int64_t> index) {
  int64_t at = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    at = at * shape[dim] + index[dim];
  return at;
}

/// The element that numpy's broadcasting reads for `index` of the result.
int64_t broadcastIndex(std::span<const int64_t> shape, std::span<const int64_t> index) {
  size_t extra = index.size() - shape.size();
  int64_t at = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim)
    at = at * shape[dim] + (shape[dim] == 1 ? 0 : index[extra + dim]);
  return at;
}

std::optional<std::vector<int64_t>> broadcast(std::span<const int64_t> a, std::span<const int64_t> b) {
  std::vector<int64_t> result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return std::nullopt;
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  if (!fits(product(result)))
    return std::nullopt;
  return result;
}

/// Reads `shape`-shaped elements of `x` at the places that `source` names.
template <typename Source>
std::optional<FoldedTensor> rearranged(const FoldedTensor &x, std::vector<int64_t> shape, Source source) {
  if (!fits(product(shape)))
    return std::nullopt;
  FoldedTensor result{x.dtype, shape, {}};
  forEachIndex(shape, [&](std::span<const int64_t> index) { result.elements.push_back(x.elements[source(index)]); });
  return result;
}

std::optional<double> numberOf(const FoldedElement &element) {
  if (auto *real = std::get_if<double>(&element))
    return *real;
  if (auto constant = std::get<DimExpr>(element).asConstant())
    return static_cast<double>(*constant);
  return std::nullopt;
}

bool isComparison(FoldedBinary op) { return op >= FoldedBinary::Equal && op <= FoldedBinary::GreaterEqual; }

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
  auto low = a.lowerBound(), lowDivisor = b.lowerBound();
  if (low && *low >= 0 && lowDivisor && *lowDivisor > 0)
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
  case FoldedBinary::Add: return FoldedElement(a + b);
  case FoldedBinary::Sub: return FoldedElement(a - b);
  case FoldedBinary::Mul: return FoldedElement(a * b);
  case FoldedBinary::Div: return divideDims(a, b);
  case FoldedBinary::Mod:
  case FoldedBinary::FMod: return moduloDims(op, a, b);
  case FoldedBinary::Pow: return powerDims(a, b);
  case FoldedBinary::Min: return FoldedElement(smaller(a, b));
  case FoldedBinary::Max: return FoldedElement(larger(a, b));
  case FoldedBinary::And:
  case FoldedBinary::Or:
  case FoldedBinary::Xor: {
    auto x = a.asConstant(), y = b.asConstant();
    if (!x || !y)
      return std::nullopt;
    bool p = *x != 0, q = *y != 0;
    return truth(op == FoldedBinary::And ? p && q : op == FoldedBinary::Or ? p || q : p != q);
  }
  default: return compareDims(op, a, b);
  }
}

std::optional<FoldedElement> combineReals(FoldedBinary op, double a, double b) {
  switch (op) {
  case FoldedBinary::Add: return a + b;
  case FoldedBinary::Sub: return a - b;
  case FoldedBinary::Mul: return a * b;
  case FoldedBinary::Div: return a / b;
  case FoldedBinary::FMod: return std::fmod(a, b);
  case FoldedBinary::Pow: return std::pow(a, b);
  case FoldedBinary::Min: return std::isnan(a) || a < b ? a : b;
  case FoldedBinary::Max: return std::isnan(a) || a > b ? a : b;
  case FoldedBinary::Equal: return truth(a == b);
  case FoldedBinary::Less: return truth(a < b);
  case FoldedBinary::LessEqual: return truth(a <= b);
  case FoldedBinary::Greater: return truth(a > b);
  case FoldedBinary::GreaterEqual: return truth(a >= b);
  default: return std::nullopt;
  }
}

/// In floating point an exact integer stays exact under these only.
bool exactInFloat(FoldedBinary op) {
  return op == FoldedBinary::Add || op == FoldedBinary::Sub || op == FoldedBinary::Mul || op == FoldedBinary::Min ||
         op == FoldedBinary::Max || isComparison(op);
}

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
  if (!p || !q || !exactInFloat(op))
    return std::nullopt;
  return combineDims(op, *p, *q);
}

/// Wraps to the type's width as integer arithmetic does; only constants can leave it.
FoldedElement wrapped(DType dtype, FoldedElement element) {
  auto *dim = std::get_if<DimExpr>(&element);
  auto constant = dim ? dim->asConstant() : std::nullopt;
  if (!constant)
    return element;
  switch (dtype) {
  case DType::I32: return DimExpr(static_cast<int32_t>(*constant));
  case DType::I16: return DimExpr(static_cast<int16_t>(*constant));
  case DType::I8: return DimExpr(static_cast<int8_t>(*constant));
  case DType::U8: return DimExpr(static_cast<uint8_t>(*constant));
  default: return element;
  }
}

std::optional<FoldedElement> combineUnaryReal(FoldedUnary op, double x) {
  switch (op) {
  case FoldedUnary::Neg: return -x;
  case FoldedUnary::Abs: return std::fabs(x);
  case FoldedUnary::Floor: return std::floor(x);
  case FoldedUnary::Ceil: return std::ceil(x);
  case FoldedUnary::Round: return std::nearbyint(x);
  case FoldedUnary::Sign: return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
  case FoldedUnary::Sqrt: return std::sqrt(x);
  case FoldedUnary::Reciprocal: return 1 / x;
  case FoldedUnary::Exp: return std::exp(x);
  case FoldedUnary::Log: return std::log(x);
  default: return std::nullopt;
  }
}

std::optional<FoldedElement> combineUnaryDim(FoldedUnary op, const DimExpr &x) {
  auto low = x.lowerBound();
  auto constant = x.asConstant();
  switch (op) {
  case FoldedUnary::Neg: return FoldedElement(-x);
  case FoldedUnary::Abs:
    if (low && *low >= 0)
      return FoldedElement(x);
    return constant ? std::optional<FoldedElement>(larger(x, -x)) : std::nullopt;
  case FoldedUnary::Floor:
  case FoldedUnary::Ceil:
  case FoldedUnary::Round: return FoldedElement(x);
  case FoldedUnary::Sign:
    if (low && *low > 0)
      return FoldedElement(DimExpr(1));
    return constant ? std::optional<FoldedElement>(DimExpr(*constant > 0 ? 1 : *constant < 0 ? -1 : 0)) : std::nullopt;
  case FoldedUnary::Not: return constant ? std::optional(truth(*constant == 0)) : std::nullopt;
  default: return std::nullopt;
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

} // namespace

FoldedTensor FoldedTensor::scalar(DType dtype, FoldedElement value) { return {dtype, {}, {std::move(value)}}; }

FoldedTensor FoldedTensor::vector(std::vector<DimExpr> values) {
  FoldedTensor result{DType::I64, {static_cast<int64_t>(values.size())}, {}};
  for (DimExpr &value : values)
    result.elements.emplace_back(std::move(value));
  return result;
}

std::optional<double> FoldedTensor::asDouble(int64_t index) const { return numberOf(elements[index]); }

std::optional<DimExpr> FoldedTensor::asDim(int64_t index) const { return integerOf(elements[index]); }

std::optional<int64_t> FoldedTensor::asInteger(int64_t index) const {
  auto dim = asDim(index);
  return dim ? dim->asConstant() : std::nullopt;
}

bool FoldedTensor::isConstant() const {
  return std::all_of(elements.begin(), elements.end(), [](const FoldedElement &e) { return numberOf(e).has_value(); });
}

bool FoldedTensor::isUniform(double value) const {
  return std::all_of(elements.begin(), elements.end(),
                     [&](const FoldedElement &e) { return numberOf(e) == std::optional(value); });
}

std::optional<FoldedTensor> fold(FoldedBinary op, const FoldedTensor &a, const FoldedTensor &b) {
  auto shape = broadcast(a.shape, b.shape);
  if (!shape || a.dtype == DType::F16 || a.dtype == DType::BF16)
    return std::nullopt;
  FoldedTensor result{isComparison(op) ? DType::Bool : a.dtype, *shape, {}};
  bool known = true;
  forEachIndex(*shape, [&](std::span<const int64_t> index) {
    if (!known)
      return;
    auto element = combine(op, a.dtype, a.elements[broadcastIndex(a.shape, index)],
                           b.elements[broadcastIndex(b.shape, index)]);
    known = element.has_value();
    if (known)
      result.elements.push_back(wrapped(result.dtype, std::move(*element)));
  });
  return known ? std::optional(std::move(result)) : std::nullopt;
}

std::optional<FoldedTensor> fold(FoldedUnary op, const FoldedTensor &x) {
  FoldedTensor result{x.dtype, x.shape, {}};
  for (const FoldedElement &element : x.elements) {
    auto value = combineUnary(op, x.dtype, element);
    if (!value)
      return std::nullopt;
    result.elements.push_back(wrapped(x.dtype, std::move(*value)));
  }
  return result;
}

std::optional<FoldedTensor> foldWhere(const FoldedTensor &condition, const FoldedTensor &onTrue,
                                      const FoldedTensor &onFalse) {
  auto shape = broadcast(condition.shape, onTrue.shape);
  if (shape)
    shape = broadcast(*shape, onFalse.shape);
  if (!shape || !condition.isConstant())
    return std::nullopt;
  FoldedTensor result{onTrue.dtype, *shape, {}};
  forEachIndex(*shape, [&](std::span<const int64_t> index) {
    bool holds = condition.asInteger(broadcastIndex(condition.shape, index)) != 0;
    const FoldedTensor &source = holds ? onTrue : onFalse;
    result.elements.push_back(source.elements[broadcastIndex(source.shape, index)]);
  });
  return result;
}

std::optional<FoldedTensor> foldCast(const FoldedTensor &x, DType dtype) {
  FoldedTensor result{dtype, x.shape, {}};
  for (const FoldedElement &element : x.elements) {
    auto value = castElement(element, x.dtype, dtype);
    if (!value)
      return std::nullopt;
    result.elements.push_back(std::move(*value));
  }
  return result;
}

std::optional<FoldedTensor> foldReshape(const FoldedTensor &x, std::vector<int64_t> shape) {
  if (product(shape) != x.size())
    return std::nullopt;
  return FoldedTensor{x.dtype, std::move(shape), x.elements};
}

std::optional<FoldedTensor> foldTranspose(const FoldedTensor &x, std::span<const int64_t> permutation) {
  std::vector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(x.shape[dim]);
  return rearranged(x, shape, [&](std::span<const int64_t> index) {
    std::vector<int64_t> from(index.size());
    for (size_t i = 0; i < index.size(); ++i)
      from[permutation[i]] = index[i];
    return linear(x.shape, from);
  });
}

std::optional<FoldedTensor> foldExpand(const FoldedTensor &x, std::span<const int64_t> shape) {
  auto result = broadcast(x.shape, shape);
  if (!result)
    return std::nullopt;
  return rearranged(x, *result, [&](std::span<const int64_t> index) { return broadcastIndex(x.shape, index); });
}

std::optional<FoldedTensor> foldConcat(std::span<const FoldedTensor *const> inputs, int64_t axis) {
  FoldedTensor result{inputs[0]->dtype, inputs[0]->shape, {}};
  result.shape[axis] = 0;
  for (const FoldedTensor *input : inputs) {
    std::vector<int64_t> expected = result.shape;
    expected[axis] = input->shape[axis];
    if (input->shape != expected)
      return std::nullopt;
    result.shape[axis] += input->shape[axis];
  }
  if (!fits(product(result.shape)))
    return std::nullopt;
  forEachIndex(result.shape, [&](std::span<const int64_t> index) {
    std::vector<int64_t> from(index.begin(), index.end());
    size_t which = 0;
    while (from[axis] >= inputs[which]->shape[axis])
      from[axis] -= inputs[which++]->shape[axis];
    result.elements.push_back(inputs[which]->elements[linear(inputs[which]->shape, from)]);
  });
  return result;
}

std::optional<FoldedTensor> foldSlice(const FoldedTensor &x, std::span<const int64_t> offsets,
                                      std::span<const int64_t> steps, std::span<const int64_t> shape) {
  return rearranged(x, {shape.begin(), shape.end()}, [&](std::span<const int64_t> index) {
    std::vector<int64_t> from(index.size());
    for (size_t i = 0; i < index.size(); ++i)
      from[i] = offsets[i] + index[i] * steps[i];
    return linear(x.shape, from);
  });
}

std::optional<FoldedTensor> foldGather(const FoldedTensor &data, const FoldedTensor &indices, int64_t axis) {
  std::vector<int64_t> shape(data.shape.begin(), data.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), data.shape.begin() + axis + 1, data.shape.end());
  std::vector<int64_t> places;
  for (int64_t i = 0; i < indices.size(); ++i) {
    auto place = indices.asInteger(i);
    if (!place || *place < -data.shape[axis] || *place >= data.shape[axis])
      return std::nullopt;
    places.push_back(*place < 0 ? *place + data.shape[axis] : *place);
  }
  size_t inner = indices.shape.size();
  return rearranged(data, shape, [&](std::span<const int64_t> index) {
    std::vector<int64_t> from(index.begin(), index.begin() + axis);
    from.push_back(places[linear(indices.shape, index.subspan(axis, inner))]);
    from.insert(from.end(), index.begin() + axis + inner, index.end());
    return linear(data.shape, from);
  });
}

std::optional<FoldedTensor> foldReduce(FoldedBinary op, const FoldedTensor &x, bool keepdims) {
  if (x.size() == 0)
    return std::nullopt;
  FoldedTensor result = FoldedTensor::scalar(x.dtype, x.elements[0]);
  for (int64_t i = 1; i < x.size(); ++i) {
    auto next = fold(op, result, FoldedTensor::scalar(x.dtype, x.elements[i]));
    if (!next)
      return std::nullopt;
    result = std::move(*next);
  }
  if (keepdims)
    result.shape.assign(x.shape.size(), 1);
  return result;
}

std::optional<FoldedTensor> foldCumsum(const FoldedTensor &x, bool exclusive, bool reverse) {
  if (x.rank() != 1 || isFloat(x.dtype))
    return std::nullopt;
  FoldedTensor result = x;
  DimExpr sum(0);
  for (int64_t i = 0; i < x.size(); ++i) {
    int64_t at = reverse ? x.size() - 1 - i : i;
    DimExpr next = sum + std::get<DimExpr>(x.elements[at]);
    result.elements[at] = exclusive ? sum : next;
    sum = next;
  }
  return result;
}

double roundTo(DType dtype, double value) {
  switch (dtype) {
  case DType::F32: return static_cast<float>(value);
  case DType::BF16: return static_cast<float>(BFloat16(static_cast<float>(value)));
  case DType::F16: return halfToFloat(floatToHalf(static_cast<float>(value)));
  default: return value;
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

DimExpr DimConstraints::apply(const DimExpr &expr) const {
  if (replacement.empty())
    return expr;
  return expr.substitute([&](std::string_view name) -> std::optional<DimExpr> {
    auto found = replacement.find(name);
    return found == replacement.end() ? std::nullopt : std::optional(found->second);
  });
}

bool DimConstraints::unify(const DimExpr &a, const DimExpr &b) {
  DimExpr x = apply(a), y = apply(b);
  return x == y || solve(x, y) || solve(y, x);
}

/// a = coefficient·symbol + constant solved for the symbol; of two bare symbols the less preferred goes.
bool DimConstraints::solve(const DimExpr &a, const DimExpr &b) {
  auto name = a.asSymbol(), other = b.asSymbol();
  if (name && other && prefer && prefer(*name) && !prefer(*other))
    return assign(*other, a);
  if (name && other)
    return assign(*name, b);
  auto symbols = a.symbols();
  if (symbols.size() != 1)
    return false;
  DimExpr symbol = DimExpr::symbol(symbols[0]);
  DimExpr constant = a.substitute([](std::string_view) { return std::optional(DimExpr(0)); });
  auto coefficient = (a - constant).exactQuotient(symbol);
  auto factor = coefficient ? coefficient->asConstant() : std::nullopt;
  if (!factor || *factor == 0)
    return false;
  auto value = (b - constant).exactQuotient(DimExpr(*factor));
  return value && assign(symbols[0], *value);
}

bool DimConstraints::assign(const std::string &symbol, const DimExpr &value) {
  auto inside = value.symbols();
  if (std::find(inside.begin(), inside.end(), symbol) != inside.end())
    return false;
  // A dim that a graph's input names is never narrowed to one number: another value would be refused at run time.
  auto constant = value.asConstant();
  if (constant && (*constant < 0 || (prefer && prefer(symbol))))
    return false;
  for (auto &[name, expr] : replacement)
    expr = expr.substitute([&](std::string_view n) -> std::optional<DimExpr> {
      return n == symbol ? std::optional(value) : std::nullopt;
    });
  replacement.emplace(symbol, value);
  return true;
}

} // namespace maestro::planner
