// Folding of small tensors; their elements' arithmetic is in symbolic_element.cpp.
#include "planner/import/symbolic_value.h"
#include "planner/import/symbolic_element.h"

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
    auto element =
        combine(op, a.dtype, a.elements[broadcastIndex(a.shape, index)], b.elements[broadcastIndex(b.shape, index)]);
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

} // namespace maestro::planner
