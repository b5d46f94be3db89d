// Constants, shapes, and operators that only move or repeat data.
#include "base/saturate.h"
#include "planner/import/half_precision.h"
#include "planner/import/import_state.h"
#include "planner/import/known_shapes.h"
#include "planner/import/metadata.h"
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
    restoreRounded(value, {&n.node}, {}, n.state.function, n.e);
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
  MAESTRO_TRY(n.e.requireEqual(
      nn::productOf(Emitter::shapeOf(x)), nn::productOf(shape),
      fmt::format("cannot reshape {} to {}", nn::shapeText(Emitter::shapeOf(x)), nn::shapeText(shape))));
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
  // PyTorch's squeeze(dim) leaves other sizes alone, and its exporter writes what only squeezes 1.
  bool isPyTorch = fxTarget(fxNode(n.node)).starts_with("aten.squeeze.dim");
  for (int64_t axis : llvm::reverse(axes)) {
    if (isPyTorch && from[axis].asConstant().value_or(1) != 1)
      continue;
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
  DimExpr count = n.e.known(larger(DimExpr(0), DimExpr::ceilDiv(distance, DimExpr(std::abs(*constantStep)))));
  if (auto known = count.asConstant(); known && *known <= 64) {
    FoldedTensor result{start->dtype, {*known}, {}};
    for (int64_t i = 0; i < *known; ++i)
      result.elements.emplace_back(*from + DimExpr(i * *constantStep));
    return n.set(0, std::move(result));
  }
  mlir::Value i = n.e.typed<nn::IotaOp>(n.e.type({count}, DType::I64), n.e.dims({*from}), n.e.dims({*step}));
  return n.set(0, n.e.cast(i, start->dtype));
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
      {"Constant", 1, importConstant},
      {"ConstantOfShape", 9, importConstantOfShape},
      {"DepthToSpace", 1, importDepthToSpace},
      {"Expand", 8, importExpand},
      {"Flatten", 1, importFlatten},
      {"Range", 11, importRange},
      {"Reshape", 5, importReshape},
      {"Shape", 1, importShape},
      {"Size", 1, importSize},
      {"SpaceToDepth", 1, importSpaceToDepth},
      {"Squeeze", 1, importSqueeze},
      {"Tile", 6, importTile},
      {"Transpose", 1, importTranspose},
      {"Unsqueeze", 1, importUnsqueeze},
  };
  return kOps;
}

} // namespace maestro::planner
