// Gathers from a flattened tensor that stay within their own row.
//
//   gather(reshape(x) [rows·size, …], row·size + rest)      0 ≤ rest < size
//                                       ─▶  x [rows, size, …] at rest, row by row
//
// So exporters write strided views, adaptive pools and indices of several dims (PyTorch's as_strided, TorchScript's
// index). Along a row the gather says of which sample each element is; flat, it computes with a sample's position in
// the batch. A rest that is the same for all rows indexes dim 1, and vanishes where it is every position in order.
#include "base/saturate.h"
#include "passes/raise_matchers.h"
#include "passes/raise_patterns.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace maestro {
namespace {

/// Indices are a few operators away from their iotas.
constexpr int kDepth = 12;

//===----------------------------------------------------------------------===//
// row · stride + rest
//===----------------------------------------------------------------------===//

struct FlatIndex {
  DimExpr stride;                ///< 0 where the row does not matter.
  llvm::SmallVector<Value> rest; ///< The sum of these, which broadcast to the index.
};

/// What an integer scalar of the graph is at plan time.
std::optional<DimExpr> scalarOf(Value value) {
  if (auto sizes = value.getDefiningOp<nn::DimValuesOp>(); sizes && sizes.getValues().getValues().size() == 1)
    return sizes.getValues().getValues()[0];
  if (Operation *op = value.getDefiningOp(); op && (op->hasTrait<nn::Rearranges>() || isa<nn::CastOp>(op)))
    if (nn::typeOf(op->getOperand(0)).getNumElements().isConstant(1))
      return scalarOf(op->getOperand(0));
  std::optional<double> constant = nn::constantValue(value);
  return constant ? std::optional(DimExpr(saturatedInt64(*constant))) : std::nullopt;
}

/// `index`, whose dim 0 has `rows` positions, as multiples of these positions and what is added to them.
FlatIndex split(Value index, const DimExpr &rows, int depth = kDepth) {
  FlatIndex whole{0, {index}};
  Operation *op = index.getDefiningOp();
  bool hasRows = raise::rankOf(index) > 0 && raise::shapeOf(index)[0] == rows;
  if (!op || !hasRows || depth == 0)
    return whole;
  if (auto iota = dyn_cast<nn::IotaOp>(op))
    return iota.getStart().getValues()[0].isConstant(0) ? FlatIndex{iota.getStep().getValues()[0], {}} : whole;
  if (auto add = dyn_cast<nn::AddOp>(op)) {
    FlatIndex sum{0, {}};
    for (Value operand : add.getOperands()) {
      bool isAligned = raise::rankOf(operand) == raise::rankOf(index);
      FlatIndex part = isAligned ? split(operand, rows, depth - 1) : FlatIndex{0, {operand}};
      sum.stride = sum.stride + part.stride;
      sum.rest.append(part.rest);
    }
    return sum;
  }
  // Row numbers that are moved, or scaled by one number.
  Value inner = isa<nn::CastOp, nn::ReshapeOp, nn::BroadcastToOp>(op) ? op->getOperand(0) : Value();
  DimExpr factor = 1;
  if (auto product = dyn_cast<nn::MulOp>(op))
    for (unsigned i : {0u, 1u})
      if (std::optional<DimExpr> scalar = scalarOf(product->getOperand(i)); scalar && !inner) {
        inner = product->getOperand(1 - i);
        factor = *scalar;
      }
  bool keepsRows = inner && raise::rankOf(inner) > 0 && raise::shapeOf(inner)[0] == rows &&
                   (isa<nn::ReshapeOp>(op) || raise::rankOf(inner) == raise::rankOf(index));
  FlatIndex part = keepsRows ? split(inner, rows, depth - 1) : whole;
  return part.rest.empty() ? FlatIndex{part.stride * factor, {}} : whole;
}

//===----------------------------------------------------------------------===//
// Bounds of integers
//===----------------------------------------------------------------------===//

/// low ≤ every element ≤ high.
struct Bounds {
  DimExpr low, high;
};

bool isNatural(const DimExpr &value) { return value.lowerBound().value_or(-1) >= 0; }

std::optional<Bounds> boundsOf(Value value, int depth = kDepth);

std::optional<Bounds> bounds(nn::ConstantOp op, int) {
  auto values = dyn_cast<DenseIntElementsAttr>(op.getValue());
  if (!values || values.empty())
    return std::nullopt;
  int64_t low = INT64_MAX, high = INT64_MIN;
  for (const APInt &value : values) {
    low = std::min(low, value.getSExtValue());
    high = std::max(high, value.getSExtValue());
  }
  return Bounds{low, high};
}

std::optional<Bounds> bounds(nn::IotaOp op, int) {
  std::optional<int64_t> start = op.getStart().getValues()[0].asConstant();
  std::optional<int64_t> step = op.getStep().getValues()[0].asConstant();
  if (!start || !step || *step < 0)
    return std::nullopt;
  return Bounds{*start, DimExpr(*start) + DimExpr(*step) * (raise::shapeOf(op)[0] - 1)};
}

std::optional<Bounds> bounds(nn::AddOp op, int depth) {
  std::optional<Bounds> a = boundsOf(op.getLhs(), depth), b = boundsOf(op.getRhs(), depth);
  if (!a || !b)
    return std::nullopt;
  return Bounds{a->low + b->low, a->high + b->high};
}

std::optional<Bounds> bounds(nn::MulOp op, int depth) {
  std::optional<Bounds> a = boundsOf(op.getLhs(), depth), b = boundsOf(op.getRhs(), depth);
  if (!a || !b || !isNatural(a->low) || !isNatural(b->low))
    return std::nullopt;
  return Bounds{0, a->high * b->high};
}

std::optional<Bounds> boundsOf(Value value, int depth) {
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0 || !isa<IntegerType>(raise::elementOf(value)))
    return std::nullopt;
  if (std::optional<DimExpr> scalar = scalarOf(value))
    return Bounds{*scalar, *scalar};
  if (op->hasTrait<nn::Rearranges>() || isa<nn::CastOp, nn::SliceOp>(op))
    return boundsOf(op->getOperand(0), depth - 1);
  if (isa<nn::ArgMaxOp, nn::ArgMinOp, nn::TopKOp>(op)) {
    int64_t axis = op->getAttrOfType<IntegerAttr>("axis").getInt();
    return Bounds{0, raise::shapeOf(op->getOperand(0))[axis] - 1};
  }
  return llvm::TypeSwitch<Operation *, std::optional<Bounds>>(op)
      .Case<nn::ConstantOp, nn::IotaOp, nn::AddOp, nn::MulOp>([&](auto each) { return bounds(each, depth - 1); })
      .Default(std::optional<Bounds>());
}

/// Whether the sum of `values` lies in [0, size).
bool liesWithin(llvm::ArrayRef<Value> values, const DimExpr &size) {
  Bounds sum;
  for (Value value : values) {
    std::optional<Bounds> each = boundsOf(value);
    if (!each)
      return false;
    sum = {sum.low + each->low, sum.high + each->high};
  }
  return isNatural(sum.low) && isNatural(size - 1 - sum.high);
}

//===----------------------------------------------------------------------===//
// The pattern
//===----------------------------------------------------------------------===//

/// Whether the elements of `positions`, in order, are 0, 1, … size − 1.
bool isEveryPosition(Value positions, const DimExpr &size) {
  if (!(nn::typeOf(positions).getNumElements() == size))
    return false;
  while (Operation *op = positions.getDefiningOp()) {
    if (isa<nn::ReshapeOp>(op) ||
        (isa<nn::BroadcastToOp>(op) && nn::typeOf(op->getOperand(0)).getNumElements() == size)) {
      positions = op->getOperand(0);
      continue;
    }
    if (auto iota = dyn_cast<nn::IotaOp>(op))
      return iota.getStart().getValues()[0].isConstant(0) && iota.getStep().getValues()[0].isConstant(1);
    auto constant = dyn_cast<nn::ConstantOp>(op);
    auto values = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
    return values && llvm::all_of(llvm::enumerate(values), [](auto each) {
             return each.value().getSExtValue() == static_cast<int64_t>(each.index());
           });
  }
  return false;
}

struct RaiseFlatGather : OpRewritePattern<nn::GatherOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::GatherOp gather, PatternRewriter &rewriter) const override {
    Value indices = gather.getIndices(), data = gather.getData();
    llvm::ArrayRef<DimExpr> at = raise::shapeOf(indices), flat = raise::shapeOf(data);
    if (gather.getAxis() != 0 || at.empty())
      return failure();
    FlatIndex index = split(indices, at[0]);
    if (index.stride.isConstant(0) || index.rest.empty() || !(flat[0] == at[0] * index.stride) ||
        !liesWithin(index.rest, index.stride))
      return failure();

    Location location = gather.getLoc();
    llvm::SmallVector<DimExpr> byRow{at[0], index.stride};
    byRow.append(flat.begin() + 1, flat.end());
    Value rows = reshape(rewriter, location, data, byRow);
    bool isAlike = llvm::all_of(index.rest, [&](Value rest) {
      return raise::rankOf(rest) < raise::rankOf(indices) || raise::shapeOf(rest)[0].isConstant(1);
    });
    Value rest = sum(rewriter, location, index.rest);
    llvm::SmallVector<DimExpr> positions(at);
    if (isAlike)
      positions[0] = 1;
    rest = broadcastTo(rewriter, location, rest, positions);
    if (isAlike && isEveryPosition(rest, index.stride)) {
      rewriter.replaceOp(gather, reshape(rewriter, location, data, raise::shapeOf(gather)));
      return success();
    }
    if (isAlike) {
      rest = reshape(rewriter, location, rest, at.drop_front());
      rewriter.replaceOpWithNewOp<nn::GatherOp>(gather, gather.getType(), rows, rest, rewriter.getI64IntegerAttr(1));
      return success();
    }
    positions.push_back(1);
    rest = reshape(rewriter, location, rest, positions);
    rewriter.replaceOpWithNewOp<nn::GatherNDOp>(gather, gather.getType(), rows, rest, rewriter.getI64IntegerAttr(1));
    return success();
  }

private:
  static Value reshape(PatternRewriter &rewriter, Location location, Value x, llvm::ArrayRef<DimExpr> shape) {
    return nn::ReshapeOp::create(rewriter, location, nn::typeOf(x).withShape(shape), x);
  }

  static Value broadcastTo(PatternRewriter &rewriter, Location location, Value x, llvm::ArrayRef<DimExpr> shape) {
    return nn::BroadcastToOp::create(rewriter, location, nn::typeOf(x).withShape(shape), x);
  }

  static Value sum(PatternRewriter &rewriter, Location location, llvm::ArrayRef<Value> values) {
    Value total = values.front();
    for (Value value : values.drop_front())
      total = nn::AddOp::create(rewriter, location, total, value);
    return total;
  }
};

} // namespace

void addRaiseGatherPatterns(RewritePatternSet &patterns) { patterns.add<RaiseFlatGather>(patterns.getContext()); }

} // namespace maestro
