// Parts of tensors, and tensors of parts: slices, splits, sequences, concatenation.
#include "base/saturate.h"
#include "planner/import/import_state.h"
#include "planner/import/known_shapes.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>

#include <numeric>

namespace maestro::planner {
namespace {

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
  MAESTRO_ASSIGN(bool startFromEnd, n.e.isNegative(start));
  MAESTRO_ASSIGN(bool endFromEnd, n.e.isNegative(end));
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
    part = {n.e.known(part.offset), n.e.known(part.size)};
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

} // namespace

std::span<const OpEntry> partsOps() {
  static constexpr OpEntry kOps[] = {
      {"Concat", 4, importConcat},
      {"SequenceAt", 11, importSequenceAt},
      {"SequenceConstruct", 11, importSequenceConstruct},
      {"SequenceLength", 11, importSequenceLength},
      {"Slice", 10, importSlice},
      {"Split", 2, importSplit},
      {"SplitToSequence", 11, importSplitToSequence},
  };
  return kOps;
}

} // namespace maestro::planner
