// Reductions over axes, which are an attribute in old versions and an input in newer ones.
#include "planner/import/metadata.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>

#include <numeric>
#include <type_traits>

namespace maestro::planner {
namespace {

struct Reduction {
  Ints axes;
  bool keepdims = true;
  bool nothing = false; ///< No axes, and noop_with_empty_axes says that this means none.
};

Result<Reduction> readReduction(NodeContext &n) {
  MAESTRO_ASSIGN(Shape shape, n.shape(0));
  MAESTRO_ASSIGN(std::optional<Ints> axes, n.axes(1, "axes"));
  Reduction result;
  result.keepdims = n.intAttribute("keepdims", 1) != 0;
  if (axes && !axes->empty()) {
    MAESTRO_ASSIGN(result.axes, n.normalizeAxes(*axes, static_cast<int64_t>(shape.size())));
    return result;
  }
  result.nothing = n.intAttribute("noop_with_empty_axes", 0) != 0;
  if (!result.nothing) {
    result.axes.resize(shape.size());
    std::iota(result.axes.begin(), result.axes.end(), 0);
  }
  return result;
}

template <typename OpTy> Result<mlir::Value> reduce(NodeContext &n, mlir::Value x, const Reduction &r) {
  if (r.axes.empty())
    return x;
  return n.e.emit<OpTy>(x, llvm::ArrayRef<int64_t>(r.axes), r.keepdims);
}

template <typename OpTy> Status importReduce(NodeContext &n) {
  MAESTRO_ASSIGN(Reduction r, readReduction(n));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  return n.set(0, reduce<OpTy>(n, x, r));
}

/// Over all elements of something known.
template <typename OpTy, FoldedBinary op> Status importFoldedReduce(NodeContext &n) {
  MAESTRO_ASSIGN(Reduction r, readReduction(n));
  const FoldedTensor *x = n.folded(0);
  if (x && !r.nothing && static_cast<int>(r.axes.size()) == x->rank())
    if (auto result = foldReduce(op, *x, r.keepdims))
      return n.set(0, std::move(*result));
  return importReduce<OpTy>(n);
}

/// x.max(dim) and x.min(dim): the gradient is the first of several equal elements', where amax()
/// and amin() share it.
template <typename ArgOp> Status importPicked(NodeContext &n, const Reduction &r) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value place, n.e.emit<ArgOp>(x, r.axes[0], false));
  MAESTRO_ASSIGN(mlir::Value y, n.e.emit<nn::GatherElementsOp>(x, place, r.axes[0]));
  if (r.keepdims)
    return n.set(0, y);
  Shape shape(Emitter::shapeOf(y));
  shape.erase(shape.begin() + r.axes[0]);
  return n.set(0, n.e.reshape(y, shape));
}

/// Booleans: largest and smallest are any and all.
template <typename OpTy, FoldedBinary op> Status importExtreme(NodeContext &n) {
  MAESTRO_ASSIGN(DType dtype, n.dtype(0));
  if (std::string_view target = fxTarget(fxNode(n.node));
      isFloat(dtype) && (target == "aten.max.dim" || target == "aten.min.dim")) {
    MAESTRO_ASSIGN(Reduction r, readReduction(n));
    using ArgOp = std::conditional_t<std::is_same_v<OpTy, nn::ReduceMaxOp>, nn::ArgMaxOp, nn::ArgMinOp>;
    if (r.axes.size() == 1)
      return importPicked<ArgOp>(n, r);
  }
  if (dtype != DType::Bool)
    return importFoldedReduce<OpTy, op>(n);
  MAESTRO_ASSIGN(Reduction r, readReduction(n));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value y, reduce<OpTy>(n, n.e.cast(x, DType::U8), r));
  return n.set(0, n.e.cast(y, DType::Bool));
}

Result<mlir::Value> sumOfSquares(NodeContext &n, const Reduction &r) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value square, n.e.emit<nn::MulOp>(x, x));
  return reduce<nn::ReduceSumOp>(n, square, r);
}

Status importReduceSumSquare(NodeContext &n) {
  MAESTRO_ASSIGN(Reduction r, readReduction(n));
  return n.set(0, sumOfSquares(n, r));
}

/// Root and logarithm of integers are formed in floating point.
template <typename OpTy> Result<mlir::Value> inFloat(NodeContext &n, mlir::Value x) {
  DType dtype = Emitter::dtypeOf(x);
  if (isFloat(dtype))
    return n.e.emit<OpTy>(x);
  MAESTRO_ASSIGN(mlir::Value y, n.e.emit<OpTy>(n.e.cast(x, DType::F64)));
  return n.e.cast(y, dtype);
}

/// A norm of 0 has gradient 0, as in PyTorch; a root's has none there. (Rows that are padding are zeros.)
Status importReduceL2(NodeContext &n) {
  MAESTRO_ASSIGN(Reduction r, readReduction(n));
  MAESTRO_ASSIGN(mlir::Value sum, sumOfSquares(n, r));
  DType dtype = Emitter::dtypeOf(sum);
  if (!isFloat(dtype))
    return n.set(0, inFloat<nn::SqrtOp>(n, sum));
  mlir::Value zero = n.e.scalar(0, dtype);
  MAESTRO_ASSIGN(mlir::Value isZero, n.e.emit<nn::EqualOp>(sum, zero));
  MAESTRO_ASSIGN(mlir::Value above, n.e.emit<nn::WhereOp>(isZero, n.e.scalar(1, dtype), sum));
  MAESTRO_ASSIGN(mlir::Value root, n.e.emit<nn::SqrtOp>(above));
  return n.set(0, n.e.emit<nn::WhereOp>(isZero, zero, root));
}

Status importReduceL1(NodeContext &n) {
  MAESTRO_ASSIGN(Reduction r, readReduction(n));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value size, n.e.emit<nn::AbsOp>(x));
  return n.set(0, reduce<nn::ReduceSumOp>(n, size, r));
}

Status importReduceLogSum(NodeContext &n) {
  MAESTRO_ASSIGN(Reduction r, readReduction(n));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value sum, reduce<nn::ReduceSumOp>(n, x, r));
  return n.set(0, inFloat<nn::LogOp>(n, sum));
}

/// max + ln Σ e^(x − max), so that nothing overflows.
Status importReduceLogSumExp(NodeContext &n) {
  MAESTRO_ASSIGN(Reduction r, readReduction(n));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  Reduction kept = r;
  kept.keepdims = true;
  MAESTRO_ASSIGN(mlir::Value largest, reduce<nn::ReduceMaxOp>(n, x, kept));
  MAESTRO_ASSIGN(mlir::Value shifted, n.e.emit<nn::SubOp>(x, largest));
  MAESTRO_ASSIGN(mlir::Value power, n.e.emit<nn::ExpOp>(shifted));
  MAESTRO_ASSIGN(mlir::Value sum, reduce<nn::ReduceSumOp>(n, power, kept));
  MAESTRO_ASSIGN(mlir::Value log, n.e.emit<nn::LogOp>(sum));
  MAESTRO_ASSIGN(mlir::Value y, n.e.emit<nn::AddOp>(log, largest));
  if (r.keepdims || r.axes.empty())
    return n.set(0, y);
  Shape shape(Emitter::shapeOf(y));
  for (int64_t axis : llvm::reverse(r.axes))
    shape.erase(shape.begin() + axis);
  return n.set(0, n.e.reshape(y, shape));
}

} // namespace

std::span<const OpEntry> reductionOps() {
  using B = FoldedBinary;
  static constexpr OpEntry kOps[] = {
      {"ReduceL1", 1, importReduceL1},
      {"ReduceL2", 1, importReduceL2},
      {"ReduceLogSum", 1, importReduceLogSum},
      {"ReduceLogSumExp", 1, importReduceLogSumExp},
      {"ReduceMax", 1, importExtreme<nn::ReduceMaxOp, B::Max>},
      {"ReduceMean", 1, importReduce<nn::ReduceMeanOp>},
      {"ReduceMin", 1, importExtreme<nn::ReduceMinOp, B::Min>},
      {"ReduceProd", 1, importFoldedReduce<nn::ReduceProdOp, B::Mul>},
      {"ReduceSum", 1, importFoldedReduce<nn::ReduceSumOp, B::Add>},
      {"ReduceSumSquare", 1, importReduceSumSquare},
  };
  return kOps;
}

} // namespace maestro::planner
