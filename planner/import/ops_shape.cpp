// Constants, shapes, and operators that only move or repeat data.
#include "base/saturate.h"
#include "planner/import/import_state.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>

#include <numeric>

namespace maestro::planner {
namespace {

//===-- Constants and shapes ------------------------------------------------===//

FoldedTensor floatVector(const google::protobuf::RepeatedField<float> &values) {
  FoldedTensor result{DType::F32, {values.size()}, {}};
  for (float value : values)
    result.elements.emplace_back(static_cast<double>(value));
  return result;
}

Status importConstant(NodeContext &n) {
  if (const auto *a = n.attribute("value")) {
    MAESTRO_ASSIGN(ImportedValue value, n.state.constant(a->t(), n.node.output(0), n.e));
    return n.set(0, std::move(value));
  }
  if (const auto *a = n.attribute("value_int"))
    return n.set(0, FoldedTensor::scalar(DType::I64, DimExpr(a->i())));
  if (const auto *a = n.attribute("value_float"))
    return n.set(0, FoldedTensor::scalar(DType::F32, static_cast<double>(a->f())));
  if (const auto *a = n.attribute("value_ints"))
    return n.set(0, FoldedTensor::vector({a->ints().begin(), a->ints().end()}));
  if (const auto *a = n.attribute("value_floats"))
    return n.set(0, floatVector(a->floats()));
  return Status::invalidInput("a constant of strings or of a sparse tensor is not supported");
}

bool isConstantShape(const Shape &shape) {
  return std::all_of(shape.begin(), shape.end(), [](const DimExpr &dim) { return dim.isConstant(); });
}

std::vector<int64_t> constantShape(const Shape &shape) {
  std::vector<int64_t> result;
  for (const DimExpr &dim : shape)
    result.push_back(*dim.asConstant());
  return result;
}

Status checkSizes(const Shape &shape, std::string_view what) {
  for (const DimExpr &dim : shape)
    if (auto constant = dim.asConstant(); constant && *constant < 0)
      return Status::invalidInput(fmt::format("{} {} has a negative dim", what, nn::shapeText(shape)));
  return {};
}

/// A known scalar repeated to `shape`.
Status setRepeated(NodeContext &n, const FoldedTensor &value, const Shape &shape) {
  MAESTRO_TRY(checkSizes(shape, "shape"));
  if (isConstantShape(shape))
    if (auto result = foldExpand(value, constantShape(shape)))
      return n.set(0, std::move(*result));
  auto number = value.asDouble(0);
  if (number && (isFloat(value.dtype) || std::abs(*number) < 0x1p53))
    return n.set(0, n.e.fill(*number, shape, value.dtype));
  return n.set(0, n.e.broadcastTo(n.e.materialize(value), shape));
}

Status importConstantOfShape(NodeContext &n) {
  MAESTRO_ASSIGN(Shape shape, n.dimList(0, "shape"));
  FoldedTensor value = FoldedTensor::scalar(DType::F32, 0.0);
  if (const auto *a = n.attribute("value")) {
    MAESTRO_ASSIGN(ImportedValue constant, n.state.constant(a->t(), "value", n.e));
    if (!constant.folded || constant.folded->size() != 1)
      return Status::invalidInput("value must be one element");
    value = *constant.folded;
    value.shape.clear();
  }
  return setRepeated(n, value, shape);
}

Status importShape(NodeContext &n) {
  MAESTRO_ASSIGN(Shape shape, n.shape(0));
  int64_t rank = static_cast<int64_t>(shape.size());
  auto bound = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  int64_t start = bound(n.intAttribute("start", 0)), end = bound(n.intAttribute("end", rank));
  std::vector<DimExpr> dims;
  for (int64_t i = start; i < end; ++i)
    dims.push_back(shape[i]);
  return n.set(0, FoldedTensor::vector(std::move(dims)));
}

Status importSize(NodeContext &n) {
  MAESTRO_ASSIGN(Shape shape, n.shape(0));
  return n.set(0, FoldedTensor::scalar(DType::I64, nn::productOf(shape)));
}

//===-- Views ---------------------------------------------------------------===//

Status setReshaped(NodeContext &n, const Shape &shape) {
  MAESTRO_TRY(checkSizes(shape, "shape"));
  if (const FoldedTensor *x = n.folded(0); x && isConstantShape(shape))
    if (auto result = foldReshape(*x, constantShape(shape)))
      return n.set(0, std::move(*result));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_TRY(n.e.requireEqual(nn::productOf(Emitter::shapeOf(x)), nn::productOf(shape),
                               fmt::format("cannot reshape {} to {}", nn::shapeText(Emitter::shapeOf(x)),
                                           nn::shapeText(shape))));
  return n.set(0, n.e.reshape(x, shape));
}

/// The dim that −1 stands for.
Result<DimExpr> inferDim(const Shape &from, const Shape &to) {
  DimExpr total = nn::productOf(from), rest(1);
  for (const DimExpr &dim : to)
    if (!dim.isConstant(-1))
      rest = rest * dim;
  if (auto exact = total.exactQuotient(rest))
    return *exact;
  auto a = total.asConstant(), b = rest.asConstant();
  if (a && b)
    return Status::invalidInput(fmt::format("cannot reshape {} to {}: {} elements are no multiple of {}",
                                            nn::shapeText(from), nn::shapeText(to), *a, *b));
  if (rest.isConstant(0))
    return Status::invalidInput("cannot infer a dim beside a dim of 0");
  return DimExpr::floorDiv(total, rest);
}

Status importReshape(NodeContext &n) {
  MAESTRO_ASSIGN(Shape from, n.shape(0));
  MAESTRO_ASSIGN(Shape to, n.dimList(1, "shape"));
  bool allowZero = n.intAttribute("allowzero", 0) != 0;
  int64_t inferred = -1;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i].isConstant(0) && !allowZero) {
      if (i >= from.size())
        return Status::invalidInput(fmt::format("dim {} of the shape is 0, but the input has rank {}", i, from.size()));
      to[i] = from[i];
    } else if (to[i].isConstant(-1)) {
      if (inferred >= 0)
        return Status::invalidInput("the shape has more than one -1");
      inferred = static_cast<int64_t>(i);
    }
  }
  if (inferred >= 0) {
    MAESTRO_ASSIGN(to[inferred], inferDim(from, to));
  }
  return setReshaped(n, to);
}

Status importFlatten(NodeContext &n) {
  MAESTRO_ASSIGN(Shape from, n.shape(0));
  int64_t rank = static_cast<int64_t>(from.size()), axis = n.intAttribute("axis", 1);
  if (axis < -rank || axis > rank)
    return Status::invalidInput(fmt::format("axis {} is outside a tensor of rank {}", axis, rank));
  axis = axis < 0 ? axis + rank : axis;
  auto dims = llvm::ArrayRef<DimExpr>(from);
  return setReshaped(n, {nn::productOf(dims.take_front(axis)), nn::productOf(dims.drop_front(axis))});
}

Status importUnsqueeze(NodeContext &n) {
  MAESTRO_ASSIGN(Shape from, n.shape(0));
  MAESTRO_ASSIGN(std::optional<Ints> list, n.axes(1, "axes"));
  if (!list)
    return Status::invalidInput("axes are missing");
  MAESTRO_ASSIGN(Ints axes, n.normalizeAxes(*list, static_cast<int64_t>(from.size() + list->size())));
  for (int64_t axis : axes)
    from.insert(from.begin() + axis, DimExpr(1));
  return setReshaped(n, from);
}

Status importSqueeze(NodeContext &n) {
  MAESTRO_ASSIGN(Shape from, n.shape(0));
  MAESTRO_ASSIGN(std::optional<Ints> list, n.axes(1, "axes"));
  Ints axes;
  if (list) {
    MAESTRO_ASSIGN(axes, n.normalizeAxes(*list, static_cast<int64_t>(from.size())));
  } else {
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i].isConstant(1))
        axes.push_back(static_cast<int64_t>(i));
  }
  for (int64_t axis : llvm::reverse(axes)) {
    MAESTRO_TRY(n.e.requireEqual(from[axis], DimExpr(1), fmt::format("cannot squeeze dim {}", axis)));
    from.erase(from.begin() + axis);
  }
  return setReshaped(n, from);
}

Status importTranspose(NodeContext &n) {
  MAESTRO_ASSIGN(ImportedValue * value, n.value(0));
  MAESTRO_ASSIGN(Shape from, n.shape(0));
  int64_t rank = static_cast<int64_t>(from.size());
  Ints permutation(rank);
  for (int64_t i = 0; i < rank; ++i)
    permutation[i] = rank - 1 - i;
  if (auto given = n.intsAttribute("perm"))
    permutation = *given;
  Ints sorted(permutation);
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < std::max<int64_t>(rank, sorted.size()); ++i)
    if (i >= rank || i >= static_cast<int64_t>(sorted.size()) || sorted[i] != i)
      return Status::invalidInput(fmt::format("perm is no permutation of {} dims", rank));
  if (value->nonZeroOf && permutation == Ints{1, 0}) {
    ImportedValue transposed = *value;
    transposed.nonZeroTransposed = !value->nonZeroTransposed;
    return n.set(0, std::move(transposed));
  }
  if (const FoldedTensor *x = n.folded(0))
    if (auto result = foldTranspose(*x, permutation))
      return n.set(0, std::move(*result));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  return n.set(0, n.e.transpose(x, permutation));
}

//===-- Repeating -----------------------------------------------------------===//

Status importExpand(NodeContext &n) {
  MAESTRO_ASSIGN(Shape from, n.shape(0));
  MAESTRO_ASSIGN(Shape target, n.dimList(1, "shape"));
  MAESTRO_TRY(checkSizes(target, "shape"));
  MAESTRO_ASSIGN(Shape shape, n.e.broadcast(from, target));
  if (const FoldedTensor *x = n.folded(0)) {
    if (isConstantShape(shape))
      if (auto result = foldExpand(*x, constantShape(shape)))
        return n.set(0, std::move(*result));
    if (x->size() == 1) {
      FoldedTensor scalar = *x;
      scalar.shape.clear();
      return setRepeated(n, scalar, shape);
    }
  }
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  return n.set(0, n.e.broadcastTo(x, shape));
}

/// [a, b] repeated [r, s] times: [1, a, 1, b] broadcast to [r, a, s, b].
Status importTile(NodeContext &n) {
  MAESTRO_ASSIGN(Shape repeats, n.dimList(1, "repeats"));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  Shape from(Emitter::shapeOf(x)), split, wide, result;
  if (repeats.size() != from.size())
    return Status::invalidInput(fmt::format("{} repeats for a tensor of rank {}", repeats.size(), from.size()));
  MAESTRO_TRY(checkSizes(repeats, "repeats"));
  for (size_t i = 0; i < from.size(); ++i) {
    split.append({DimExpr(1), from[i]});
    wide.append({repeats[i], from[i]});
    result.push_back(repeats[i] * from[i]);
  }
  return n.set(0, n.e.reshape(n.e.broadcastTo(n.e.reshape(x, split), wide), result));
}

Status importRange(NodeContext &n) {
  const FoldedTensor *start = n.folded(0), *limit = n.folded(1), *delta = n.folded(2);
  if (!start || !limit || !delta || start->size() != 1 || limit->size() != 1 || delta->size() != 1)
    return Status::invalidInput("start, limit and delta must follow from shapes and constants");
  auto from = start->asDim(0), to = limit->asDim(0), step = delta->asDim(0);
  if (!from || !to || !step) {
    auto a = start->asDouble(0), b = limit->asDouble(0), d = delta->asDouble(0);
    if (!a || !b || !d || *d == 0)
      return Status::invalidInput("start, limit and delta must be constants where they are fractions");
    auto count = saturatedInt64(std::max(0.0, std::ceil((*b - *a) / *d)));
    mlir::Value i = n.e.cast(n.e.iota(DimExpr(count)), start->dtype);
    MAESTRO_ASSIGN(i, n.e.emit<nn::MulOp>(i, n.e.scalar(*d, start->dtype)));
    return n.set(0, n.e.emit<nn::AddOp>(i, n.e.scalar(*a, start->dtype)));
  }
  auto constantStep = step->asConstant();
  if (!constantStep || *constantStep == 0)
    return Status::invalidInput(fmt::format("delta is {}; it must be a constant other than 0", step->str()));
  DimExpr distance = *constantStep > 0 ? *to - *from : *from - *to;
  DimExpr count = larger(DimExpr(0), DimExpr::ceilDiv(distance, DimExpr(std::abs(*constantStep))));
  if (auto known = count.asConstant(); known && *known <= 64) {
    FoldedTensor result{start->dtype, {*known}, {}};
    for (int64_t i = 0; i < *known; ++i)
      result.elements.emplace_back(*from + DimExpr(i * *constantStep));
    return n.set(0, std::move(result));
  }
  mlir::Value i = n.e.typed<nn::IotaOp>(n.e.type({count}, DType::I64), n.e.dims({*from}), n.e.dims({*step}));
  return n.set(0, n.e.cast(i, start->dtype));
}

//===-- Parts ---------------------------------------------------------------===//

/// Whether an index counts from the end, where it can be told.
Result<bool> isNegative(const DimExpr &index) {
  auto low = index.lowerBound(), lowNegated = (DimExpr(0) - index).lowerBound();
  if (low && *low >= 0)
    return false;
  if (lowNegated && *lowNegated > 0)
    return true;
  return Status::invalidInput(fmt::format("cannot tell whether index {} is negative", index.str()));
}

/// Slices write "to the end" as ±2⁶³; nearer numbers mean the same and do not overflow.
DimExpr tamed(const DimExpr &index) {
  constexpr int64_t kFar = int64_t(1) << 48;
  auto constant = index.asConstant();
  return constant ? DimExpr(std::clamp(*constant, -kFar, kFar)) : index;
}

struct AxisSlice {
  DimExpr offset, size;
};

/// A tensor of constant length, such as a table of positions, sliced up to a named dim: that dim is at most the
/// length (the exporter's guard said so), or nothing would fit what the slice is added to.
bool boundedByLength(NodeContext &n, const DimExpr &dim, const DimExpr &end) {
  auto length = dim.asConstant();
  if (!length || end.isConstant())
    return false;
  n.state.boundDim(end, *length);
  return true;
}

Result<AxisSlice> sliceAxis(NodeContext &n, const DimExpr &dim, DimExpr start, DimExpr end, int64_t step) {
  start = tamed(start);
  end = tamed(end);
  MAESTRO_ASSIGN(bool startFromEnd, isNegative(start));
  MAESTRO_ASSIGN(bool endFromEnd, isNegative(end));
  start = startFromEnd ? start + dim : start;
  end = endFromEnd ? end + dim : end;
  if (step > 0) {
    bool bounded = boundedByLength(n, dim, end);
    start = bounded ? larger(start, DimExpr(0)) : clampDim(start, DimExpr(0), dim);
    end = bounded ? end : clampDim(end, DimExpr(0), dim);
    return AxisSlice{start, larger(DimExpr(0), DimExpr::ceilDiv(end - start, DimExpr(step)))};
  }
  start = clampDim(start, DimExpr(0), dim - 1);
  end = clampDim(end, DimExpr(-1), dim - 1);
  return AxisSlice{start, larger(DimExpr(0), DimExpr::ceilDiv(start - end, DimExpr(-step)))};
}

struct FullSlice {
  Shape offsets, sizes;
  Ints steps;
  bool whole = true; ///< Takes everything as it is.
};

Status applySlice(NodeContext &n, const FullSlice &slice) {
  if (slice.whole) {
    MAESTRO_ASSIGN(ImportedValue * value, n.value(0));
    return n.set(0, ImportedValue(*value));
  }
  if (const FoldedTensor *x = n.folded(0); x && isConstantShape(slice.sizes) && isConstantShape(slice.offsets))
    if (auto result = foldSlice(*x, constantShape(slice.offsets), slice.steps, constantShape(slice.sizes)))
      return n.set(0, std::move(*result));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  return n.set(0, n.e.typed<nn::SliceOp>(n.e.like(x, slice.sizes), x, n.e.dims(slice.offsets),
                                         llvm::ArrayRef<int64_t>(slice.steps)));
}

Status importSlice(NodeContext &n) {
  MAESTRO_ASSIGN(Shape from, n.shape(0));
  MAESTRO_ASSIGN(Shape starts, n.dimList(1, "starts"));
  MAESTRO_ASSIGN(Shape ends, n.dimList(2, "ends"));
  Ints axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has(3)) {
    MAESTRO_ASSIGN(axes, n.intList(3, "axes"));
  }
  if (n.has(4)) {
    MAESTRO_ASSIGN(steps, n.intList(4, "steps"));
  }
  if (starts.size() != ends.size() || starts.size() != axes.size() || starts.size() != steps.size())
    return Status::invalidInput("starts, ends, axes and steps differ in length");
  FullSlice slice{Shape(from.size(), DimExpr(0)), from, Ints(from.size(), 1)};
  for (size_t i = 0; i < axes.size(); ++i) {
    MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(axes[i], static_cast<int64_t>(from.size())));
    if (steps[i] == 0)
      return Status::invalidInput("a step is 0");
    int64_t step = std::clamp<int64_t>(steps[i], -(int64_t(1) << 48), int64_t(1) << 48);
    MAESTRO_ASSIGN(AxisSlice part, sliceAxis(n, from[axis], starts[i], ends[i], step));
    slice.offsets[axis] = part.offset;
    slice.sizes[axis] = part.size;
    slice.steps[axis] = step;
    slice.whole &= step == 1 && part.size == from[axis];
  }
  return applySlice(n, slice);
}

/// One value per part along `axis`.
Result<std::vector<ImportedValue>> splitValue(NodeContext &n, int64_t axis, const Shape &sizes) {
  MAESTRO_ASSIGN(Shape from, n.shape(0));
  DimExpr sum(0);
  for (const DimExpr &size : sizes)
    sum = sum + size;
  MAESTRO_TRY(checkSizes(sizes, "split"));
  MAESTRO_TRY(n.e.requireEqual(sum, from[axis], fmt::format("parts of dim {}", axis)));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  std::vector<ImportedValue> parts;
  DimExpr offset(0);
  for (const DimExpr &size : sizes) {
    parts.push_back(ImportedValue::of(n.e.sliceAxis(x, axis, offset, size)));
    offset = offset + size;
  }
  return parts;
}

/// `count` parts of equal size, the last one smaller where that does not come out even.
Result<Shape> equalParts(const DimExpr &dim, int64_t count) {
  if (count <= 0)
    return Status::invalidInput("splits into no part");
  if (auto exact = dim.exactQuotient(DimExpr(count)))
    return Shape(count, *exact);
  auto constant = dim.asConstant();
  if (!constant)
    return Status::invalidInput(fmt::format("cannot split a dim of {} into {} equal parts", dim.str(), count));
  int64_t size = (*constant + count - 1) / count;
  Shape parts(count, DimExpr(size));
  parts.back() = DimExpr(*constant - size * (count - 1));
  return parts;
}

Result<Shape> splitSizes(NodeContext &n, const DimExpr &dim) {
  if (auto attribute = n.intsAttribute("split"))
    return Shape(attribute->begin(), attribute->end());
  if (n.has(1))
    return n.dimList(1, "split");
  return equalParts(dim, n.intAttribute("num_outputs", n.outputCount()));
}

Status importSplit(NodeContext &n) {
  MAESTRO_ASSIGN(Shape from, n.shape(0));
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", 0), static_cast<int64_t>(from.size())));
  MAESTRO_ASSIGN(Shape sizes, splitSizes(n, from[axis]));
  if (static_cast<int>(sizes.size()) != n.outputCount())
    return Status::invalidInput(fmt::format("{} parts for {} outputs", sizes.size(), n.outputCount()));
  MAESTRO_ASSIGN(std::vector<ImportedValue> parts, splitValue(n, axis, sizes));
  for (size_t i = 0; i < parts.size(); ++i)
    MAESTRO_TRY(n.set(static_cast<int>(i), std::move(parts[i])));
  return {};
}

//===-- Sequences -----------------------------------------------------------===//

/// Chunks of `size`; the last one may be smaller.
Result<Shape> chunkSizes(const DimExpr &dim, int64_t size) {
  auto constant = dim.asConstant();
  if (!constant || size <= 0 || *constant / size > 4096)
    return Status::invalidInput(fmt::format("cannot split a dim of {} into chunks of {}", dim.str(), size));
  Shape parts(*constant / size, DimExpr(size));
  if (*constant % size != 0)
    parts.push_back(DimExpr(*constant % size));
  return parts;
}

Status importSplitToSequence(NodeContext &n) {
  MAESTRO_ASSIGN(Shape from, n.shape(0));
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", 0), static_cast<int64_t>(from.size())));
  Shape sizes;
  bool scalar = !n.has(1);
  if (n.has(1)) {
    MAESTRO_ASSIGN(sizes, n.dimList(1, "split"));
    scalar = n.folded(1)->rank() == 0;
  }
  if (scalar) {
    auto size = n.has(1) && !sizes.empty() ? sizes[0].asConstant() : std::optional<int64_t>(1);
    MAESTRO_ASSIGN(sizes, chunkSizes(from[axis], size.value_or(0)));
  }
  MAESTRO_ASSIGN(std::vector<ImportedValue> parts, splitValue(n, axis, sizes));
  if (!n.has(1) && n.intAttribute("keepdims", 1) == 0)
    for (ImportedValue &part : parts) {
      Shape shape(Emitter::shapeOf(part.tensor));
      shape.erase(shape.begin() + axis);
      part = ImportedValue::of(n.e.reshape(part.tensor, shape));
    }
  ImportedValue sequence;
  sequence.sequence = std::make_shared<const std::vector<ImportedValue>>(std::move(parts));
  return n.set(0, std::move(sequence));
}

Status importSequenceConstruct(NodeContext &n) {
  std::vector<ImportedValue> parts;
  for (int i = 0; i < n.inputCount(); ++i) {
    MAESTRO_ASSIGN(ImportedValue * value, n.value(i));
    parts.push_back(*value);
  }
  ImportedValue sequence;
  sequence.sequence = std::make_shared<const std::vector<ImportedValue>>(std::move(parts));
  return n.set(0, std::move(sequence));
}

Status importSequenceAt(NodeContext &n) {
  MAESTRO_ASSIGN(ImportedValue * sequence, n.value(0));
  MAESTRO_ASSIGN(Ints position, n.intList(1, "position"));
  if (!sequence->sequence || position.size() != 1)
    return Status::invalidInput("needs a sequence and one position");
  int64_t count = static_cast<int64_t>(sequence->sequence->size());
  int64_t at = position[0] < 0 ? position[0] + count : position[0];
  if (at < 0 || at >= count)
    return Status::invalidInput(fmt::format("position {} in a sequence of {}", position[0], count));
  return n.set(0, ImportedValue((*sequence->sequence)[at]));
}

Status importSequenceLength(NodeContext &n) {
  MAESTRO_ASSIGN(ImportedValue * sequence, n.value(0));
  if (!sequence->sequence)
    return Status::invalidInput("needs a sequence");
  return n.set(0, FoldedTensor::scalar(DType::I64, DimExpr(static_cast<int64_t>(sequence->sequence->size()))));
}

//===-- Joining -------------------------------------------------------------===//

/// Dims other than `axis` must agree.
Status checkConcat(NodeContext &n, const Shape &first, int input, int64_t axis) {
  MAESTRO_ASSIGN(Shape shape, n.shape(input));
  if (shape.size() != first.size())
    return Status::invalidInput(fmt::format("joins tensors of rank {} and {}", first.size(), shape.size()));
  for (size_t i = 0; i < shape.size(); ++i)
    if (static_cast<int64_t>(i) != axis)
      MAESTRO_TRY(n.e.requireEqual(first[i], shape[i], fmt::format("dim {} of joined tensors", i)));
  return {};
}

Status importConcat(NodeContext &n) {
  MAESTRO_ASSIGN(Shape first, n.shape(0));
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", 0), static_cast<int64_t>(first.size())));
  std::vector<const FoldedTensor *> known;
  for (int i = 0; i < n.inputCount(); ++i) {
    MAESTRO_TRY(checkConcat(n, first, i, axis));
    if (const FoldedTensor *x = n.folded(i))
      known.push_back(x);
  }
  if (static_cast<int>(known.size()) == n.inputCount())
    if (auto result = foldConcat(known, axis))
      return n.set(0, std::move(*result));
  llvm::SmallVector<mlir::Value> inputs;
  for (int i = 0; i < n.inputCount(); ++i) {
    MAESTRO_ASSIGN(mlir::Value x, n.tensor(i));
    if (!Emitter::shapeOf(x)[axis].isConstant(0) || n.inputCount() == 1)
      inputs.push_back(x);
  }
  if (inputs.empty())
    return n.set(0, n.tensor(0));
  if (inputs.size() == 1)
    return n.set(0, inputs[0]);
  return n.set(0, n.e.emit<nn::ConcatOp>(mlir::ValueRange(inputs), axis));
}

//===-- Padding -------------------------------------------------------------===//

struct Padding {
  Shape low, high;
};

Result<Padding> readPadding(NodeContext &n, size_t rank) {
  Shape pads;
  if (auto attribute = n.intsAttribute("pads")) {
    pads.assign(attribute->begin(), attribute->end());
  } else {
    MAESTRO_ASSIGN(pads, n.dimList(1, "pads"));
  }
  Ints axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (n.has(3)) {
    MAESTRO_ASSIGN(axes, n.intList(3, "axes"));
  }
  if (pads.size() != 2 * axes.size())
    return Status::invalidInput(fmt::format("{} pads for {} axes", pads.size(), axes.size()));
  Padding result{Shape(rank, DimExpr(0)), Shape(rank, DimExpr(0))};
  for (size_t i = 0; i < axes.size(); ++i) {
    MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(axes[i], static_cast<int64_t>(rank)));
    result.low[axis] = pads[i];
    result.high[axis] = pads[axes.size() + i];
  }
  return result;
}

/// Negative pads cut: what is left after cutting, with pads ≥ 0.
Result<mlir::Value> cut(NodeContext &n, mlir::Value x, Padding &padding) {
  for (size_t axis = 0; axis < padding.low.size(); ++axis) {
    MAESTRO_ASSIGN(bool lowCuts, isNegative(padding.low[axis]));
    MAESTRO_ASSIGN(bool highCuts, isNegative(padding.high[axis]));
    DimExpr low = lowCuts ? DimExpr(0) - padding.low[axis] : DimExpr(0);
    DimExpr high = highCuts ? DimExpr(0) - padding.high[axis] : DimExpr(0);
    DimExpr rest = Emitter::shapeOf(x)[axis] - low - high;
    if (auto left = rest.asConstant(); left && *left < 0)
      return Status::invalidInput(fmt::format("pads cut more than dim {} has", axis));
    if (lowCuts || highCuts)
      x = n.e.sliceAxis(x, static_cast<int64_t>(axis), low, rest);
    padding.low[axis] = lowCuts ? DimExpr(0) : padding.low[axis];
    padding.high[axis] = highCuts ? DimExpr(0) : padding.high[axis];
  }
  return x;
}

/// Which element of a dim of `size` lies at `place` before its beginning or after its end.
int64_t mirrored(int64_t place, int64_t size, const std::string &mode) {
  if (mode == "edge" || size == 1)
    return std::clamp<int64_t>(place, 0, size - 1);
  int64_t period = mode == "wrap" ? size : 2 * (size - 1);
  int64_t phase = (place % period + period) % period;
  return phase < size ? phase : period - phase;
}

/// Padding with the tensor's own elements along an axis of known size is a choice of elements, which has a gradient.
Result<mlir::Value> padByChoice(NodeContext &n, mlir::Value x, int64_t axis, int64_t low, int64_t high, const std::string &mode) {
  int64_t size = *Emitter::shapeOf(x)[axis].asConstant();
  std::vector<DimExpr> places;
  for (int64_t place = -low; place < size + high; ++place)
    places.emplace_back(mirrored(place, size, mode));
  return n.e.emit<nn::GatherOp>(x, n.e.materialize(FoldedTensor::vector(std::move(places))), axis);
}

/// A pad along axes whose sizes are all known, within reason.
bool isChoice(mlir::Value x, const Padding &padding) {
  for (size_t i = 0; i < padding.low.size(); ++i) {
    auto size = Emitter::shapeOf(x)[i].asConstant(), low = padding.low[i].asConstant(), high = padding.high[i].asConstant();
    bool changes = !padding.low[i].isConstant(0) || !padding.high[i].isConstant(0);
    if (changes && (!size || !low || !high || *size < 1 || *low > 1 << 16 || *high > 1 << 16 || *size > 1 << 16))
      return false;
  }
  return true;
}

Status importPad(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(Padding padding, readPadding(n, Emitter::rankOf(x)));
  double value = n.floatAttribute("value", 0);
  if (n.has(2)) {
    MAESTRO_ASSIGN(value, n.number(2, "the padding value"));
  }
  std::string mode = n.textAttribute("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return Status::invalidInput(fmt::format("mode '{}' is none of constant, reflect, edge, wrap", mode));
  MAESTRO_ASSIGN(x, cut(n, x, padding));
  Shape shape(Emitter::shapeOf(x));
  for (size_t i = 0; i < shape.size(); ++i)
    shape[i] = shape[i] + padding.low[i] + padding.high[i];
  if (llvm::ArrayRef<DimExpr>(shape) == Emitter::shapeOf(x))
    return n.set(0, x);
  if (mode != "constant" && isChoice(x, padding)) {
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != Emitter::shapeOf(x)[i]) {
        MAESTRO_ASSIGN(x, padByChoice(n, x, static_cast<int64_t>(i), *padding.low[i].asConstant(),
                                      *padding.high[i].asConstant(), mode));
      }
    return n.set(0, x);
  }
  return n.set(0, n.e.typed<nn::PadOp>(n.e.like(x, shape), x, n.e.dims(padding.low), n.e.dims(padding.high),
                                       n.e.builder.getF64FloatAttr(value), n.e.builder.getStringAttr(mode)));
}

//===-- Blocks of pixels ----------------------------------------------------===//

Result<int64_t> blockSize(NodeContext &n, mlir::Value x) {
  int64_t block = n.intAttribute("blocksize", 0);
  if (block <= 0 || block > 65536 || Emitter::rankOf(x) != 4)
    return Status::invalidInput("needs a tensor of rank 4 and a positive blocksize");
  return block;
}

Result<DimExpr> divided(const DimExpr &dim, int64_t by) {
  if (auto exact = dim.exactQuotient(DimExpr(by)))
    return *exact;
  return Status::invalidInput(fmt::format("a dim of {} is no multiple of {}", dim.str(), by));
}

Status importDepthToSpace(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(int64_t block, blockSize(n, x));
  Shape s(Emitter::shapeOf(x));
  MAESTRO_ASSIGN(DimExpr channels, divided(s[1], block * block));
  DimExpr b(block);
  bool columnRow = n.textAttribute("mode", "DCR") == "CRD";
  Shape split = columnRow ? Shape{s[0], channels, b, b, s[2], s[3]} : Shape{s[0], b, b, channels, s[2], s[3]};
  Ints order = columnRow ? Ints{0, 1, 4, 2, 5, 3} : Ints{0, 3, 4, 1, 5, 2};
  MAESTRO_ASSIGN(mlir::Value y, n.e.transpose(n.e.reshape(x, split), order));
  return n.set(0, n.e.reshape(y, {s[0], channels, s[2] * b, s[3] * b}));
}

Status importSpaceToDepth(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(int64_t block, blockSize(n, x));
  Shape s(Emitter::shapeOf(x));
  MAESTRO_ASSIGN(DimExpr height, divided(s[2], block));
  MAESTRO_ASSIGN(DimExpr width, divided(s[3], block));
  DimExpr b(block);
  mlir::Value split = n.e.reshape(x, {s[0], s[1], height, b, width, b});
  MAESTRO_ASSIGN(mlir::Value y, n.e.transpose(split, {0, 3, 5, 1, 2, 4}));
  return n.set(0, n.e.reshape(y, {s[0], s[1] * b * b, height, width}));
}

} // namespace

std::span<const OpEntry> shapeOps() {
  static constexpr OpEntry kOps[] = {
      {"Concat", 4, importConcat},
      {"Constant", 1, importConstant},
      {"ConstantOfShape", 9, importConstantOfShape},
      {"DepthToSpace", 1, importDepthToSpace},
      {"Expand", 8, importExpand},
      {"Flatten", 1, importFlatten},
      {"Pad", 2, importPad},
      {"Range", 11, importRange},
      {"Reshape", 5, importReshape},
      {"SequenceAt", 11, importSequenceAt},
      {"SequenceConstruct", 11, importSequenceConstruct},
      {"SequenceLength", 11, importSequenceLength},
      {"Shape", 1, importShape},
      {"Size", 1, importSize},
      {"Slice", 10, importSlice},
      {"SpaceToDepth", 1, importSpaceToDepth},
      {"Split", 2, importSplit},
      {"SplitToSequence", 11, importSplitToSequence},
      {"Squeeze", 1, importSqueeze},
      {"Tile", 6, importTile},
      {"Transpose", 1, importTranspose},
      {"Unsqueeze", 1, importUnsqueeze},
  };
  return kOps;
}

} // namespace maestro::planner
