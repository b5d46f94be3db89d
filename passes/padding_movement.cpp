// Padded dims through operators that take parts of dims: slices, pads, joins, gathers and scatters.
#include "passes/padding_transfer.h"

using namespace mlir;

namespace maestro::padding {

//===----------------------------------------------------------------------===//
// Slices, pads, joins
//===----------------------------------------------------------------------===//

void Transfer::slice(nn::SliceOp op) {
  llvm::ArrayRef<DimExpr> from = shapeOf(0), to = nn::typeOf(op.getY()).getShape();
  auto isUntouched = [&](unsigned dim) {
    return op.getOffsets().getValues()[dim].isConstant(0) && op.getSteps()[dim] == 1 && from[dim] == to[dim];
  };
  const Tensor &x = operand(0);
  Tensor &result = results[0];
  result.range = x.range;
  result.offset = x.offset;
  for (const Axis &axis : x.axes)
    if (isUntouched(axis.dim))
      result.axes.push_back(axis);
  for (unsigned dim = 0; dim < from.size() && !isVisible(); ++dim) {
    if (isUntouched(dim) || (mentions(from[dim]) && !x.runsAlong(dim)))
      continue;
    if (mentions(op.getOffsets().getValues()[dim]))
      return show("reads positions counted from the end of '" + symbol + "'");
    if (std::optional<Axis> axis = axisOf(0, dim))
      sliceDim(op, dim, *axis);
    else if (mentions(to[dim])) // As many of a table's first entries.
      result.axes.push_back({dim, 1, to[dim], to[dim], x.range, 0});
  }
}

void Transfer::sliceDim(nn::SliceOp op, unsigned dim, const Axis &axis) {
  DimExpr offset = op.getOffsets().getValues()[dim], size = nn::typeOf(op.getY()).getDim(dim);
  int64_t step = op.getSteps()[dim];
  Tensor &result = results[0];
  if (!mentions(size)) {
    DimExpr last = step < 0 ? offset : offset + (size - 1) * step;
    if ((axis.right - 1 - last).lowerBound().value_or(-1) < 0) {
      if ((axis.extent - 1 - last).lowerBound().value_or(-1) >= 0)
        requireRight(axis);
      return show("reads position " + last.str() + ", which short samples do not have");
    }
    if (result.offset && !size.isConstant(1) && axis.coefficient != 0)
      result.offset.reset();
    if (result.offset && offset.isConstant())
      *result.offset += axis.coefficient * *offset.asConstant();
    return;
  }
  if (step < 0 || !offset.isConstant())
    return show("reads positions counted from the end of '" + symbol + "'");
  DimExpr available = DimExpr::ceilDiv(axis.right - offset, step);
  Axis part{dim, 1, size, smaller(available, size), axis.tail, axis.coefficient * step, axis.narrowedBy};
  if ((size - available).lowerBound().value_or(-1) < 0)
    part.tail = part.tail.with(operand(0).range); // What is cut off at the end lies in the tail of shorter samples.
  if (result.offset)
    *result.offset += axis.coefficient * *offset.asConstant();
  result.axes.push_back(part);
}

void Transfer::pad(nn::PadOp op) {
  llvm::ArrayRef<DimExpr> from = shapeOf(0), to = nn::typeOf(op.getY()).getShape();
  llvm::ArrayRef<DimExpr> lows = op.getLow().getValues(), highs = op.getHigh().getValues();
  const Tensor &x = operand(0);
  Tensor &result = results[0];
  double value = op.getValue().convertToDouble();
  bool isConstant = op.getMode() == "constant";
  result.range = isConstant ? x.range.with(Range::point(value)) : x.range;
  for (unsigned dim = 0; dim < from.size(); ++dim) {
    const DimExpr &low = lows[dim], &high = highs[dim];
    bool isUntouched = low.isConstant(0) && high.isConstant(0);
    if (isUntouched && !x.runsAlong(dim))
      continue;
    if (mentions(low) || mentions(high))
      return show("pads by a number of '" + symbol + "' positions");
    std::optional<Axis> axis = isUntouched ? std::nullopt : axisOf(0, dim);
    if (!axis) {
      for (const Axis &same : x.axes)
        if (same.dim == dim)
          result.axes.push_back(same);
      continue;
    }
    bool readsAhead = !isConstant && !low.isConstant(0);
    if (readsAhead && (axis->right - low - 1).lowerBound().value_or(-1) < 0)
      return show("pads with what lies inside '" + symbol + "'");
    Axis padded{dim, 1, to[dim], axis->right + low, axis->tail, 0, high.isConstant(0) ? axis->narrowedBy : op};
    if (isConstant && isFull(*axis) && axis->tail.is(value))
      padded.right = to[dim]; // The padding goes on as the tail does.
    if (!high.isConstant(0))
      padded.tail = isConstant ? padded.tail.with(Range::point(value)) : Range();
    result.axes.push_back(padded);
  }
}

void Transfer::concat(nn::ConcatOp op) {
  unsigned along = op.getAxis();
  Tensor &result = results[0];
  result.range = operand(0).range;
  for (unsigned i = 1; i < op->getNumOperands(); ++i)
    result.range = result.range.with(operand(i).range);
  llvm::SmallVector<llvm::SmallVector<int>> targets;
  for (unsigned i = 0; i < op->getNumOperands(); ++i)
    targets.push_back(carry(i, [&](unsigned dim) { return dim == along; }));
  for (int at = 0; at < int(result.axes.size()); ++at)
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      int own = int(llvm::find(targets[i], at) - targets[i].begin());
      Range tail = behind(i, own == int(targets[i].size()) ? -1 : own, result.axes[at]);
      result.axes[at].tail = i == 0 ? tail : result.axes[at].tail.with(tail);
    }
  DimExpr before = 0;
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    if (std::optional<Axis> axis = axisOf(i, along)) {
      Axis joined{along,
                  1,
                  nn::typeOf(op.getResult()).getDim(along),
                  before + axis->right,
                  axis->tail,
                  0,
                  i + 1 < op->getNumOperands() ? op.getOperation() : axis->narrowedBy};
      if (i + 1 < op->getNumOperands())
        joined.tail = Range();
      result.axes.push_back(joined); // What follows begins where padding ends: it is not right.
      return;
    }
    before = before + shapeOf(i)[along];
  }
}

//===----------------------------------------------------------------------===//
// Gathers and scatters
//===----------------------------------------------------------------------===//

namespace {
/// The axis of `indices` whose positions they are, if they are nothing else.
const Axis *ownPositions(const Tensor &indices) {
  const Axis *own = nullptr;
  for (const Axis &axis : indices.axes) {
    if (axis.coefficient == 0)
      continue;
    if (own || axis.coefficient != 1)
      return nullptr;
    own = &axis;
  }
  return own && indices.offset == 0 ? own : nullptr;
}
} // namespace

/// gather and gather_elements. Indices that are the padded dim's own positions move its elements; others must not be
/// negative, which counts from the end.
void Transfer::gather(unsigned along) {
  bool byElement = isa<nn::GatherElementsOp>(op);
  std::optional<Axis> addressed;
  if (operand(0).runsAlong(along))
    addressed = axisOf(0, along);
  for (auto [dim, factors] : llvm::enumerate(rule.operandDims[0]))
    if (dim != along && operand(0).runsAlong(dim) && rule.factors[factors.front()].kind == nn::FactorKind::Whole)
      return show("takes elements of some positions along '" + symbol + "'");
  carry(0, [&](unsigned dim) { return dim == along; });
  llvm::SmallVector<int> targets = carry(1);
  if (!addressed || isVisible())
    return;
  const Axis *own = byElement ? nullptr : ownPositions(operand(1));
  if (!own && (operand(1).range.low < 0 || !isFull(*addressed)))
    return show("takes positions of '" + symbol + "' by indices that may be negative, which count from its end");
  if (!own)
    return;
  Axis &moved = results[0].axes[targets[own - operand(1).axes.begin()]];
  moved.right = smaller(moved.right, addressed->right);
  moved.tail = addressed->tail;
  results[0].range = operand(0).range;
  takePositions(*addressed, moved);
}

/// Positions that are taken at their own positions stay what they are.
void Transfer::takePositions(const Axis &from, Axis &to) {
  bool isOnlyOne =
      llvm::all_of(operand(0).axes, [&](const Axis &axis) { return axis.dim == from.dim || axis.coefficient == 0; });
  if (!operand(0).offset || !isOnlyOne)
    return;
  to.coefficient = from.coefficient;
  results[0].offset = operand(0).offset;
}

void Transfer::gatherND(nn::GatherNDOp op) {
  unsigned batchDims = op.getBatchDims(), last = nn::typeOf(op.getIndices()).getRank() - 1;
  int64_t depth = nn::typeOf(op.getIndices()).getShape().back().asConstant().value_or(0);
  auto isAddressed = [&](unsigned dim) { return dim >= batchDims && dim < batchDims + depth; };
  carry(0, isAddressed);
  carry(1, [&](unsigned dim) { return dim == last; });
  auto joined = op.getIndices().getDefiningOp<nn::ConcatOp>();
  bool byColumns = joined && joined.getAxis() == last && joined->getNumOperands() == size_t(depth);
  for (unsigned column = 0; column < depth && !isVisible(); ++column) {
    unsigned dim = batchDims + column;
    if (!operand(0).runsAlong(dim))
      continue;
    std::optional<Axis> addressed = axisOf(0, dim);
    const Tensor &address = byColumns ? known.at(joined->getOperand(column)) : operand(1);
    const Axis *own = byColumns || depth == 1 ? ownPositions(address) : nullptr;
    if (!own && (address.range.low < 0 || !isFull(*addressed)))
      return show("takes positions of '" + symbol + "' by indices that may be negative, which count from its end");
    for (Axis &axis : results[0].axes)
      if (own && axis.dim == own->dim && axis.extent == own->extent) {
        bool alone = true; // Whether no other column moves along this axis.
        for (unsigned other = 0; other < depth; ++other)
          alone &= other == column || !byColumns || !known.at(joined->getOperand(other)).runsAlong(own->dim);
        axis.right = smaller(axis.right, addressed->right);
        axis.tail = alone ? addressed->tail : axis.tail;
        if (alone)
          takePositions(*addressed, axis);
      }
  }
  if (!isVisible())
    results[0].range = operand(0).range;
}

/// Writing at places that do not depend on padding changes no other place.
void Transfer::scatterND(nn::ScatterNDOp op) {
  const Tensor &indices = operand(1), &updates = operand(2);
  int64_t depth = nn::typeOf(op.getIndices()).getShape().back().asConstant().value_or(0);
  if (!indices.axes.empty() || !updates.axes.empty() ||
      llvm::any_of(nn::typeOf(op.getUpdates()).getShape(), [&](const DimExpr &dim) { return mentions(dim); }))
    return show("writes at as many places as '" + symbol + "' is long, padding included");
  for (const Axis &axis : operand(0).axes) {
    if (axis.dim < depth && indices.range.low < 0)
      return show("writes at places of '" + symbol + "' that may be negative, which count from its end");
    results[0].axes.push_back({axis.dim, axis.stride, axis.extent, axis.right, axis.tail.with(updates.range), 0});
  }
  results[0].range = operand(0).range.with(updates.range);
}

void Transfer::maskedScatter(nn::MaskedScatterOp op) {
  for (const DimExpr &dim : nn::typeOf(op.getSource()).getShape())
    if (mentions(dim))
      return show("takes a source in order whose '" + symbol + "' is padded");
  for (unsigned dim = 0; dim < shapeOf(1).size(); ++dim)
    if (mentions(shapeOf(1)[dim])) {
      std::optional<Axis> axis = axisOf(1, dim);
      if (isVisible())
        return;
      if (!isFull(*axis) || !axis->tail.is(0))
        return show("may put source's elements where '" + symbol +
                    "' is padded: its mask is not known to be false there");
    }
  results[0].axes = operand(0).axes;
  for (const Axis &axis : operand(1).axes) // Of a uniform tensor, what the mask leaves.
    if (!operand(0).find(axis.dim, axis.stride))
      results[0].axes.push_back({axis.dim, axis.stride, axis.extent, axis.right, operand(0).range, 0, axis.narrowedBy});
  results[0].range = operand(0).range.with(operand(2).range);
}

} // namespace maestro::padding
