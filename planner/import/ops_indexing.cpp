// Gathering, scattering, sorting, masks made from positions.
#include "ir/nn/gradient_attributes.h"
#include "planner/import/import_state.h"
#include "planner/import/index_bound.h"
#include "planner/import/metadata.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>

namespace maestro::planner {
namespace {

Status checkIndexType(NodeContext &n, int input) {
  MAESTRO_ASSIGN(DType dtype, n.dtype(input));
  if (dtype == DType::I64 || dtype == DType::I32)
    return {};
  return Status::invalidInput(
      fmt::format("indices '{}' have element type {}, not i64 or i32", n.node.input(input), name(dtype)));
}

/// A constant scalar index is a slice.
Status gatherOne(NodeContext &n, mlir::Value data, int64_t axis, int64_t index) {
  Shape shape(Emitter::shapeOf(data));
  auto size = shape[axis].asConstant();
  if (size && (index < -*size || index >= *size))
    return Status::invalidInput(fmt::format("index {} is outside a dim of {}", index, *size));
  DimExpr offset = index < 0 ? shape[axis] + index : DimExpr(index);
  mlir::Value part = n.e.sliceAxis(data, axis, offset, DimExpr(1));
  shape.erase(shape.begin() + axis);
  return n.set(0, n.e.reshape(part, shape));
}

/// embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse): the exporter writes the
/// first two alone. Null where no row is padding.
Result<mlir::IntegerAttr> paddingIndex(NodeContext &n) {
  std::string_view text = fxNode(n.node);
  if (!fxTarget(text).starts_with("aten.embedding."))
    return mlir::IntegerAttr();
  std::vector<std::string> arguments = fxArguments(text);
  if (arguments.size() > 3 && arguments[3] == "True")
    return Status::invalidInput("scale_grad_by_freq=True is not supported: what a row's gradient "
                                "is divided by would depend on the "
                                "micro-batch; create the embedding without it");
  std::optional<double> index = fxNumber(text, 2);
  return index && *index >= 0 ? n.e.builder.getI64IntegerAttr(static_cast<int64_t>(*index)) : mlir::IntegerAttr();
}

Status importGather(NodeContext &n) {
  MAESTRO_TRY(checkIndexType(n, 1));
  MAESTRO_ASSIGN(Shape shape, n.shape(0));
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", 0), static_cast<int64_t>(shape.size())));
  const FoldedTensor *known = n.folded(0), *index = n.folded(1);
  if (known && index)
    if (auto result = foldGather(*known, *index, axis))
      return n.set(0, std::move(*result));
  MAESTRO_ASSIGN(mlir::Value data, n.tensor(0));
  if (index && index->rank() == 0)
    if (auto constant = index->asInteger(0))
      return gatherOne(n, data, axis, *constant);
  MAESTRO_ASSIGN(mlir::Value indices, n.tensor(1));
  auto length = shape[axis].asConstant();
  if (auto most = length ? largestValue(indices) : std::nullopt)
    n.state.boundDim(*most + 1, *length);
  MAESTRO_ASSIGN(mlir::IntegerAttr padding, paddingIndex(n));
  MAESTRO_ASSIGN(mlir::Value y, n.e.emit<nn::GatherOp>(data, indices, axis));
  if (padding)
    y.getDefiningOp()->setAttr(nn::kPaddingIndex, padding);
  return n.set(0, y);
}

Status importGatherElements(NodeContext &n) {
  MAESTRO_TRY(checkIndexType(n, 1));
  MAESTRO_ASSIGN(mlir::Value data, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value indices, n.tensor(1));
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", 0), Emitter::rankOf(data)));
  return n.set(0, n.e.emit<nn::GatherElementsOp>(data, indices, axis));
}

Status importGatherND(NodeContext &n) {
  MAESTRO_TRY(checkIndexType(n, 1));
  MAESTRO_ASSIGN(mlir::Value data, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value indices, n.tensor(1));
  int64_t batchDims = n.intAttribute("batch_dims", 0);
  int64_t least = std::min(Emitter::rankOf(data), Emitter::rankOf(indices));
  if (batchDims < 0 || batchDims >= least)
    return Status::invalidInput(fmt::format("batch_dims {} with tensors of rank {} and {}", batchDims,
                                            Emitter::rankOf(data), Emitter::rankOf(indices)));
  for (int64_t i = 0; i < batchDims; ++i)
    MAESTRO_TRY(n.e.requireEqual(Emitter::shapeOf(data)[i], Emitter::shapeOf(indices)[i], "batch dims"));
  return n.set(0, n.e.emit<nn::GatherNDOp>(data, indices, batchDims));
}

Result<std::string> reduction(NodeContext &n) {
  std::string text = n.textAttribute("reduction", "none");
  for (const char *known : {"none", "add", "mul", "min", "max"})
    if (text == known)
      return text;
  return Status::invalidInput(fmt::format("reduction '{}' is none of none, add, mul, min, max", text));
}

Status importScatterElements(NodeContext &n) {
  MAESTRO_TRY(checkIndexType(n, 1));
  MAESTRO_ASSIGN(mlir::Value data, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value indices, n.tensor(1));
  MAESTRO_ASSIGN(mlir::Value updates, n.tensor(2));
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", 0), Emitter::rankOf(data)));
  MAESTRO_ASSIGN(std::string how, reduction(n));
  return n.set(0, n.e.emit<nn::ScatterElementsOp>(data, indices, updates, axis, llvm::StringRef(how)));
}

/// What exporters cut masked_scatter's source from: its first elements, as many as the mask has places. Any other slice
/// is what the graph means.
mlir::Value withoutCut(mlir::Value updates, const DimExpr &places) {
  auto slice = updates.getDefiningOp<nn::SliceOp>();
  auto isCut = [&](const DimExpr &size) { return llvm::is_contained(size.symbols(), places.asSymbol().value_or("")); };
  if (!slice || Emitter::rankOf(updates) == 0 || !isCut(Emitter::shapeOf(updates)[0]))
    return updates;
  bool fromStart =
      llvm::all_of(slice.getOffsets().getValues(), [](const DimExpr &offset) { return offset.isConstant(0); }) &&
      llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; });
  return fromStart && Emitter::shapeOf(slice.getX()).drop_front() == Emitter::shapeOf(updates).drop_front()
             ? slice.getX()
             : updates;
}

/// ScatterND at the places of NonZero is torch's masked_scatter, or an assignment under a mask: the updates in order.
Status importMaskedScatter(NodeContext &n, const ImportedValue &places) {
  mlir::Value mask = places.nonZeroOf;
  MAESTRO_ASSIGN(mlir::Value data, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value updates, n.tensor(2));
  if (n.textAttribute("reduction", "none") != "none")
    return Status::invalidInput("a masked scatter with a reduction is not supported");
  updates = withoutCut(updates, places.nonZeroCount);
  Shape shape(Emitter::shapeOf(data)), maskShape(Emitter::shapeOf(mask));
  if (maskShape.size() > shape.size())
    return Status::invalidInput("the mask has more dims than the tensor it masks");
  for (size_t i = 0; i < maskShape.size(); ++i)
    MAESTRO_TRY(n.e.requireEqual(maskShape[i], shape[i], "a mask and what it masks"));
  maskShape.resize(shape.size(), DimExpr(1));
  mask = n.e.broadcastTo(n.e.reshape(mask, maskShape), shape);
  updates = n.e.reshape(updates, {nn::productOf(Emitter::shapeOf(updates))});
  return n.set(0, n.e.emit<nn::MaskedScatterOp>(data, mask, updates));
}

Status importScatterND(NodeContext &n) {
  MAESTRO_ASSIGN(ImportedValue * places, n.value(1));
  if (places->nonZeroOf && places->nonZeroTransposed)
    return importMaskedScatter(n, *places);
  MAESTRO_TRY(checkIndexType(n, 1));
  MAESTRO_ASSIGN(mlir::Value data, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value indices, n.tensor(1));
  MAESTRO_ASSIGN(mlir::Value updates, n.tensor(2));
  MAESTRO_ASSIGN(std::string how, reduction(n));
  return n.set(0, n.e.emit<nn::ScatterNDOp>(data, indices, updates, llvm::StringRef(how)));
}

Status importNonZero(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  ImportedValue places;
  places.nonZeroOf = n.e.cast(x, DType::Bool);
  places.nonZeroCount = n.state.inventDim("nonzero");
  return n.set(0, std::move(places));
}

Status importCumSum(NodeContext &n) {
  bool exclusive = n.intAttribute("exclusive", 0) != 0, reverse = n.intAttribute("reverse", 0) != 0;
  if (const FoldedTensor *x = n.folded(0))
    if (auto result = foldCumsum(*x, exclusive, reverse))
      return n.set(0, std::move(*result));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(Ints list, n.intList(1, "axis"));
  if (list.size() != 1)
    return Status::invalidInput("axis must be one number");
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(list[0], Emitter::rankOf(x)));
  return n.set(0, n.e.emit<nn::CumsumOp>(x, axis, exclusive, reverse));
}

Status importTopK(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(Shape k, n.dimList(1, "K"));
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", -1), Emitter::rankOf(x)));
  Shape shape(Emitter::shapeOf(x));
  if (k.size() != 1)
    return Status::invalidInput("K must be one number");
  auto room = (shape[axis] - k[0]).lowerBound(), low = k[0].lowerBound();
  if (!room || *room < 0 || !low || *low < 0)
    return Status::invalidInput(fmt::format("takes {} of a dim of {}", k[0].str(), shape[axis].str()));
  shape[axis] = k[0];
  auto op = nn::TopKOp::create(n.e.builder, n.e.location, n.e.like(x, shape), n.e.type(shape, DType::I64), x, axis,
                               n.intAttribute("largest", 1) != 0);
  MAESTRO_TRY(n.set(0, op.getValues()));
  return n.set(1, op.getIndices());
}

template <typename OpTy> Status importArg(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", 0), Emitter::rankOf(x)));
  MAESTRO_ASSIGN(mlir::Value y, n.e.emit<OpTy>(x, axis, n.intAttribute("select_last_index", 0) != 0));
  if (n.intAttribute("keepdims", 1) != 0)
    return n.set(0, y);
  Shape shape(Emitter::shapeOf(y));
  shape.erase(shape.begin() + axis);
  return n.set(0, n.e.reshape(y, shape));
}

/// indices = 0 … depth − 1 along a new axis, as values[1] and values[0].
Status importOneHot(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value indices, n.tensor(0));
  MAESTRO_ASSIGN(Shape depth, n.dimList(1, "depth"));
  MAESTRO_ASSIGN(mlir::Value values, n.tensor(2));
  if (depth.size() != 1 || Emitter::rankOf(values) != 1)
    return Status::invalidInput("needs one depth and two values");
  int64_t rank = Emitter::rankOf(indices) + 1;
  MAESTRO_ASSIGN(int64_t axis, n.normalizeAxis(n.intAttribute("axis", -1), rank));
  indices = n.e.cast(indices, DType::I64);
  mlir::Value size = n.e.materialize(FoldedTensor::scalar(DType::I64, depth[0]));
  MAESTRO_ASSIGN(mlir::Value below, n.e.emit<nn::LessOp>(indices, n.e.scalar(0, DType::I64)));
  MAESTRO_ASSIGN(mlir::Value shifted, n.e.emit<nn::AddOp>(indices, size));
  MAESTRO_ASSIGN(indices, n.e.emit<nn::WhereOp>(below, shifted, indices));
  Shape wide(Emitter::shapeOf(indices)), positions(rank, DimExpr(1));
  wide.insert(wide.begin() + axis, DimExpr(1));
  positions[axis] = depth[0];
  MAESTRO_ASSIGN(mlir::Value hot,
                 n.e.emit<nn::EqualOp>(n.e.reshape(indices, wide), n.e.reshape(n.e.iota(depth[0]), positions)));
  mlir::Value off = n.e.reshape(n.e.sliceAxis(values, 0, DimExpr(0), DimExpr(1)), {});
  mlir::Value on = n.e.reshape(n.e.sliceAxis(values, 0, DimExpr(1), DimExpr(1)), {});
  return n.set(0, n.e.emit<nn::WhereOp>(hot, on, off));
}

/// Row and column numbers of a matrix, the rows moved down by `offset`: [rows, 1] and [1, columns].
std::pair<mlir::Value, mlir::Value> positions(NodeContext &n, const DimExpr &rows, const DimExpr &columns,
                                              int64_t offset) {
  mlir::Value row =
      n.e.typed<nn::IotaOp>(n.e.type({rows}, DType::I64), n.e.dims({DimExpr(offset)}), n.e.dims({DimExpr(1)}));
  return {n.e.reshape(row, {rows, DimExpr(1)}), n.e.reshape(n.e.iota(columns), {DimExpr(1), columns})};
}

Status importTrilu(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  int64_t rank = Emitter::rankOf(x);
  if (rank < 2)
    return Status::invalidInput("needs a tensor of rank 2 or more");
  int64_t offset = 0;
  if (n.has(1)) {
    MAESTRO_ASSIGN(double number, n.number(1, "k"));
    offset = static_cast<int64_t>(std::clamp(number, -1e15, 1e15));
  }
  auto shape = Emitter::shapeOf(x);
  auto [row, column] = positions(n, shape[rank - 2], shape[rank - 1], offset);
  MAESTRO_ASSIGN(mlir::Value keep, n.intAttribute("upper", 1) != 0 ? n.e.emit<nn::GreaterEqualOp>(column, row)
                                                                   : n.e.emit<nn::LessEqualOp>(column, row));
  return n.set(0, n.e.emit<nn::WhereOp>(keep, x, n.e.scalar(0, Emitter::dtypeOf(x))));
}

Status importEyeLike(NodeContext &n) {
  MAESTRO_ASSIGN(Shape shape, n.shape(0));
  MAESTRO_ASSIGN(DType dtype, n.dtype(0));
  if (shape.size() != 2)
    return Status::invalidInput("needs a tensor of rank 2");
  if (n.attribute("dtype")) {
    auto given = dtypeFromOnnx(static_cast<int32_t>(n.intAttribute("dtype", 0)));
    if (!given)
      return Status::invalidInput("an element type that is not supported");
    dtype = *given;
  }
  auto [row, column] = positions(n, shape[0], shape[1], n.intAttribute("k", 0));
  MAESTRO_ASSIGN(mlir::Value equal, n.e.emit<nn::EqualOp>(column, row));
  return n.set(0, n.e.cast(equal, dtype));
}

} // namespace

std::span<const OpEntry> indexingOps() {
  static constexpr OpEntry kOps[] = {
      {"ArgMax", 1, importArg<nn::ArgMaxOp>},
      {"ArgMin", 1, importArg<nn::ArgMinOp>},
      {"CumSum", 11, importCumSum},
      {"EyeLike", 9, importEyeLike},
      {"Gather", 1, importGather},
      {"GatherElements", 11, importGatherElements},
      {"GatherND", 11, importGatherND},
      {"NonZero", 9, importNonZero},
      {"OneHot", 9, importOneHot},
      {"ScatterElements", 11, importScatterElements},
      {"ScatterND", 11, importScatterND},
      {"TopK", 10, importTopK},
      {"Trilu", 14, importTrilu},
  };
  return kOps;
}

} // namespace maestro::planner
