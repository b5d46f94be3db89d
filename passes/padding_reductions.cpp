// Padded dims through operators that look at all positions, or at neighbouring ones: reductions, softmax, products,
// attention, losses, convolutions.
#include "passes/padding_transfer.h"

using namespace mlir;

namespace maestro::padding {

/// What a number as a mask does, before the padded dim.
static constexpr llvm::StringLiteral kMaskedByNumber =
    "weighs equally, padding included, where a number other than -inf masks all of '";

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

namespace {
/// Why the reduction of such an axis depends on padding; nothing where the tail is neutral.
std::optional<std::string> whyVisible(Operation *op, const Axis &axis, Range range, llvm::StringRef symbol) {
  std::string along = " '" + symbol.str() + "'";
  if (isa<nn::ReduceMeanOp>(op))
    return "is a mean over" + along;
  bool neutral = isa<nn::ReduceSumOp>(op)    ? axis.tail.is(0)
                 : isa<nn::ReduceProdOp>(op) ? axis.tail.is(1)
                 : isa<nn::ReduceMaxOp>(op)  ? axis.tail.high <= std::max(kMasked, range.low)
                                             : axis.tail.low >= std::min(-kMasked, range.high);
  if (neutral)
    return std::nullopt;
  if (isa<nn::ReduceSumOp>(op))
    return "sums over" + along + ", and nothing makes the padding there 0";
  return "reduces" + along + ", and nothing masks the padding there";
}
} // namespace

void Transfer::reduce(llvm::ArrayRef<int64_t> axes) {
  const Tensor &x = operand(0);
  for (int64_t dim : axes)
    if (mentions(shapeOf(0)[dim])) {
      if (!x.runsAlong(dim) && !isa<nn::ReduceSumOp, nn::ReduceProdOp>(op))
        continue; // Uniform.
      std::optional<Axis> only = x.runsAlong(dim) ? std::nullopt : axisOf(0, dim);
      for (const Axis &axis : only ? llvm::ArrayRef<Axis>(*only) : llvm::ArrayRef<Axis>(x.axes))
        if (axis.dim == dim) {
          if (!isa<nn::ReduceMeanOp>(op) && !requireRight(axis))
            return;
          if (auto why = whyVisible(op, axis, x.range, symbol))
            return show(*why);
        }
    }
  llvm::SmallVector<int> targets = carry(0, [&](unsigned dim) { return llvm::is_contained(axes, int64_t(dim)); });
  Tensor &result = results[0];
  auto reduced = [&](Range range) {
    if (!isa<nn::ReduceSumOp>(op))
      return isa<nn::ReduceProdOp>(op) && !range.is(1) ? Range() : range;
    return range.is(0) ? range : Range{range.low >= 0 ? 0 : -kInfinity, range.high <= 0 ? 0 : kInfinity};
  };
  result.range = reduced(x.range);
  for (auto [axis, target] : llvm::zip(x.axes, targets))
    if (target >= 0)
      result.axes[target].tail = reduced(axis.tail);
}

/// Whether a field's values say what `value` is.
static bool dependsOnField(Value value) { return bool(dependsOn(value, {attributes::kField, attributes::kEdge})); }

bool Transfer::mayMaskAll(Value scores) const {
  const Tensor &tensor = known.at(scores);
  auto masks = [](const Tensor &each) {
    return llvm::any_of(each.axes, [](const Axis &axis) { return axis.tail.high <= kMasked; });
  };
  if (!masks(tensor) || tensor.range.low > kMasked || tensor.range.low == tensor.range.high)
    return false;
  Operation *by = scores.getDefiningOp();
  if (by && (by->hasTrait<nn::Rearranges>() || isa<nn::CastOp>(by)))
    return mayMaskAll(by->getOperand(0));
  if (isa_and_nonnull<nn::AddOp>(by) && (masks(known.at(by->getOperand(0))) || masks(known.at(by->getOperand(1)))))
    return llvm::any_of(by->getOperands(), [&](Value each) { return mayMaskAll(each); });
  if (isa_and_nonnull<nn::WhereOp>(by)) {
    bool byNumber = llvm::any_of(by->getOperands().drop_front(), [&](Value each) {
      const Range &range = known.at(each).range;
      return range.high <= kMasked && range.high > -kInfinity;
    });
    return (byNumber && dependsOnField(by->getOperand(0))) ||
           llvm::any_of(by->getOperands().drop_front(), [&](Value each) { return mayMaskAll(each); });
  }
  return dependsOnField(scores) && llvm::any_of(tensor.axes, [](const Axis &axis) {
           return axis.tail.high <= kMasked && axis.tail.high > -kInfinity;
         });
}

void Transfer::softmax(unsigned dim, bool isLog) {
  Range values = isLog ? Range{-kInfinity, 0} : Range{0, 1};
  results[0].range = values;
  if (mentions(shapeOf(0)[dim])) {
    std::optional<Axis> axis = axisOf(0, dim);
    if (isVisible())
      return;
    if (!requireRight(*axis) || axis->tail.high > kMasked)
      return show("normalises over '" + symbol + "', and nothing masks the padding there");
    if (mayMaskAll(op->getOperand(0)))
      return show(kMaskedByNumber + symbol + "'");
  }
  carry(0);
  for (Axis &axis : results[0].axes)
    axis.tail = axis.dim != dim ? values : isLog ? Range{-kInfinity, kMasked} : Range::point(0);
}

void Transfer::cumsum(nn::CumsumOp cumsum) {
  unsigned dim = cumsum.getAxis();
  const Tensor &x = operand(0);
  Tensor &result = results[0];
  Range sums = x.range.low >= 0 ? Range{0, kInfinity} : Range();
  std::optional<Axis> along = axisOf(0, dim);
  if (isVisible())
    return;
  if (along && cumsum.getReverse() && (!isFull(*along) || !along->tail.is(0)))
    return show("sums '" + symbol + "' up from its end, and nothing makes the padding there 0");
  llvm::SmallVector<int> targets = carry(0, [&](unsigned d) { return d == dim; });
  result.range = sums;
  for (auto [axis, target] : llvm::zip(x.axes, targets))
    if (target >= 0)
      result.axes[target].tail = axis.tail.is(0) ? axis.tail : Range();
  if (along)
    result.axes.push_back({dim, 1, along->extent, along->right, along->tail.low >= 0 ? sums : Range(), 0});
}

/// arg_max and arg_min. Of equal elements the first counts, which is no padding.
void Transfer::argLargest(unsigned dim, bool largest, bool selectsLast) {
  results[0].range.low = 0;
  if (operand(0).runsAlong(dim) || (selectsLast && mentions(shapeOf(0)[dim]))) {
    std::optional<Axis> axis = axisOf(0, dim);
    if (isVisible())
      return;
    const Range &range = operand(0).range, &tail = axis->tail;
    bool never = largest ? tail.high <= kMasked || (!selectsLast && tail.high <= range.low)
                         : tail.low >= -kMasked || (!selectsLast && tail.low >= range.high);
    if (!isFull(*axis) || !never)
      return show("looks for the " + llvm::Twine(largest ? "largest" : "smallest") + " over '" + symbol +
                  "', and nothing masks the padding there");
  }
  carry(0, [&](unsigned d) { return d == dim; });
}

//===----------------------------------------------------------------------===//
// Products and attention
//===----------------------------------------------------------------------===//

void Transfer::matmul(nn::MatmulOp op) {
  unsigned rank[] = {unsigned(shapeOf(0).size()), unsigned(shapeOf(1).size())};
  unsigned inner[] = {op.getTransposeA() ? rank[0] - 2 : rank[0] - 1, op.getTransposeB() ? rank[1] - 1 : rank[1] - 2};
  if (mentions(shapeOf(0)[inner[0]])) {
    bool neutral = false, full = true;
    for (unsigned i : {0u, 1u}) {
      std::optional<Axis> axis = axisOf(i, inner[i]);
      if (isVisible())
        return;
      full &= isFull(*axis);
      neutral |= axis->tail.is(0);
    }
    if (!full || !neutral)
      return show("sums over '" + symbol + "', and nothing makes the padding there 0");
  }
  llvm::SmallVector<llvm::SmallVector<int>> targets;
  for (unsigned i : {0u, 1u})
    targets.push_back(carry(i, [&](unsigned dim) { return dim == inner[i]; }));
  if (op.getBias() || isVisible())
    return;
  for (unsigned i : {0u, 1u})
    for (auto [axis, target] : llvm::zip(operand(i).axes, targets[i]))
      if (target >= 0 && axis.tail.is(0) && axis.right == results[0].axes[target].right)
        results[0].axes[target].tail = axis.tail;
}

void Transfer::attention(nn::AttentionOp op) {
  unsigned position = op.getSequenceMajor() ? 1 : 2;
  bool keysRun = mentions(shapeOf(1)[position]);
  if (keysRun) {
    std::optional<Axis> keys = axisOf(1, position), values = axisOf(2, position);
    if (isVisible())
      return;
    bool full = isFull(*keys) && isFull(*values), masked = false;
    if (op.getMask() && mentions(shapeOf(3).back())) {
      std::optional<Axis> mask = axisOf(3, shapeOf(3).size() - 1);
      if (isVisible())
        return;
      bool isBool = nn::typeOf(op.getMask()).getElementType().isInteger(1);
      masked = full && isFull(*mask) && (isBool ? mask->tail.is(0) : mask->tail.high <= kMasked);
      if (masked && !isBool && mayMaskAll(op.getMask()))
        return show(kMaskedByNumber + symbol + "'");
    }
    bool sameLength = mentions(shapeOf(0)[position]) && shapeOf(0)[position] == shapeOf(1)[position];
    masked |= full && op.getCausal() && int64_t(op.getCausalOffset()) <= 0 && sameLength;
    if (!masked)
      return show("attends to all of '" + symbol + "', and nothing masks the padding there");
  }
  carry(0);
  for (unsigned i : {1u, 2u})
    carry(i, [&](unsigned dim) { return dim == position; });
  if (op.getMask())
    carry(3, [&](unsigned dim) { return dim + 1 == shapeOf(3).size(); });
}

/// From the first position on, each state follows from positions before it alone.
void Transfer::recurrence(nn::RecurrenceOp op) {
  std::optional<Axis> along = axisOf(0, 1);
  if (isVisible())
    return;
  if (along && op.getReverse())
    return show("goes from the end of '" + symbol + "' to its start, padding first");
  if (mentions(shapeOf(0)[2]))
    return show("computes with '" + symbol + "' elements of a state");
  carry(0, [](unsigned dim) { return dim == 1; });
  carry(2);
  if (op.getLengths())
    carry(op->getNumOperands() - 1);
  for (Tensor &result : results)
    if (along)
      result.axes.push_back({1, 1, along->extent, along->right, Range(), 0, along->narrowedBy});
}

void Transfer::crossEntropy(nn::CrossEntropyOp op) {
  unsigned classes = shapeOf(0).size() - 1;
  if (mentions(shapeOf(0)[classes])) {
    std::optional<Axis> axis = axisOf(0, classes);
    if (!isVisible() && (!isFull(*axis) || axis->tail.high > kMasked))
      show("normalises over '" + symbol + "', and nothing masks the padding there");
  }
  if (isVisible())
    return;
  carry(0, [&](unsigned dim) { return dim == classes; });
  llvm::SmallVector<int> targets = carry(1);
  results[0].range = {0, kInfinity};
  for (auto [i, axis] : llvm::enumerate(operand(1).axes))
    if (targets[i] >= 0)
      if (Axis &each = results[0].axes[targets[i]];
          behind(1, int(i), each).is(static_cast<double>(int64_t(op.getIgnoreIndex()))))
        each.tail = Range::point(0);
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Convolutions and pools. `neutral`: the tail that equals what a window reads behind the end of a sample that is
/// alone.
void Transfer::window(llvm::ArrayRef<int64_t> kernel, llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> pads,
                      llvm::ArrayRef<int64_t> dilations, std::optional<double> neutral) {
  if (isa<nn::ConvOp>(op))
    for (const DimExpr &dim : shapeOf(1))
      if (mentions(dim))
        return show("convolves with a filter as long as '" + symbol + "'");
  if (isa<nn::ConvOp>(op) && mentions(shapeOf(0)[1]))
    return show("sums over '" + symbol + "' as channels");
  carry(0, [](unsigned dim) { return dim >= 2; });
  for (unsigned dim = 2; dim < shapeOf(0).size(); ++dim) {
    std::optional<Axis> axis = axisOf(0, dim);
    if (isVisible())
      return;
    if (!axis)
      continue;
    unsigned i = dim - 2;
    if (kernel[i] < 1)
      return show("slides a window of unknown size along '" + symbol + "'");
    DimExpr extent = nn::typeOf(op->getResult(0)).getDim(dim);
    int64_t span = dilations[i] * (kernel[i] - 1) + 1;
    DimExpr inside =
        DimExpr::floorDiv(axis->right + pads[i] - span, strides[i]) + 1; // Windows that end before the tail.
    bool isNeutral =
        neutral && isFull(*axis) && (axis->tail.is(*neutral) || axis->tail.high <= std::min(*neutral, kMasked));
    Range tail = isa<nn::ConvOp>(op) ? Range() : operand(0).range.with(axis->tail).with(Range::point(0));
    results[0].axes.push_back({dim, 1, extent, isNeutral ? extent : smaller(inside, extent), tail, 0, op});
  }
}

/// Element i of dy reaches elements from i·stride − pad on.
void Transfer::transposedConv(nn::ConvGradInputOp conv) {
  for (const DimExpr &dim : shapeOf(1))
    if (mentions(dim))
      return show("convolves with a filter as long as '" + symbol + "'");
  if (mentions(shapeOf(0)[1]))
    return show("sums over '" + symbol + "' as channels");
  carry(0, [](unsigned dim) { return dim >= 2; });
  for (unsigned dim = 2; dim < shapeOf(0).size(); ++dim) {
    std::optional<Axis> axis = axisOf(0, dim);
    if (isVisible())
      return;
    if (!axis)
      continue;
    DimExpr extent = nn::typeOf(conv.getDx()).getDim(dim),
            reached = axis->right * conv.getStrides()[dim - 2] - conv.getPads()[dim - 2];
    bool isNeutral = isFull(*axis) && axis->tail.is(0);
    results[0].axes.push_back({dim, 1, extent, isNeutral ? extent : smaller(reached, extent), Range(), 0, op});
  }
}

} // namespace maestro::padding
