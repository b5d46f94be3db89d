// Padded dims through operators: the walk, what follows from factor rules alone, and elementwise operators.
#include "passes/padding_transfer.h"

using namespace mlir;

namespace maestro::padding {

bool isFull(const Axis &axis) {
  return (axis.right - axis.extent).lowerBound(/*symbolsMayBeZero=*/true).value_or(-1) >= 0;
}

DimExpr smaller(const DimExpr &a, const DimExpr &b) {
  if ((a - b).lowerBound().value_or(-1) >= 0)
    return b;
  if ((b - a).lowerBound().value_or(-1) >= 0)
    return a;
  return DimExpr::min(a, b);
}

const Axis *Tensor::find(unsigned dim, const DimExpr &stride) const {
  const Axis *found = llvm::find_if(axes, [&](const Axis &axis) { return axis.dim == dim && axis.stride == stride; });
  return found == axes.end() ? nullptr : found;
}

bool Tensor::runsAlong(unsigned dim) const {
  return llvm::any_of(axes, [&](const Axis &axis) { return axis.dim == dim; });
}

Transfer::Transfer(Operation *op, const llvm::DenseMap<Value, Tensor> &known, llvm::StringRef symbol)
    : op(op), known(known), symbol(symbol), results(op->getNumResults()) {
  for (auto [tensor, value] : llvm::zip(results, op->getResults()))
    tensor.range = allOf(nn::typeOf(value).getElementType());
}

bool Transfer::mentions(const DimExpr &expr) const { return llvm::is_contained(expr.symbols(), symbol.str()); }

void Transfer::show(const llvm::Twine &what) {
  if (!isVisible())
    for (Tensor &result : results)
      result.visible = Visible{op, what.str()};
}

bool Transfer::requireRight(const Axis &axis) {
  if (isFull(axis))
    return true;
  if (axis.narrowedBy && !isVisible())
    for (Tensor &result : results)
      result.visible = Visible{
          axis.narrowedBy, "mixes '" + symbol.str() +
                               "' positions with what lies behind a sample's end, where nothing makes the padding 0"};
  show("reads all of '" + symbol + "', whose last positions depend on padding");
  return false;
}

llvm::SmallVector<Tensor> Transfer::run() {
  for (Value value : op->getOperands())
    if (const Tensor &tensor = known.at(value); tensor.visible && !isVisible())
      for (Tensor &result : results)
        result.visible = tensor.visible;
  if (!isVisible()) {
    if (auto shardable = dyn_cast<nn::ShardableOpInterface>(op))
      rule = shardable.getFactorRule();
    dispatch();
  }
  if (isVisible())
    for (Tensor &result : results)
      result = Tensor{{}, {}, std::nullopt, results.front().visible};
  return std::move(results);
}

void Transfer::dispatch() {
  auto kernelOf = [&](auto conv) {
    llvm::SmallVector<int64_t> sizes;
    for (const DimExpr &size : nn::typeOf(conv.getW()).getShape().drop_front(2))
      sizes.push_back(size.asConstant().value_or(0));
    return sizes;
  };
  if (auto each = dyn_cast<nn::IotaOp>(op))
    return iota(each);
  if (auto each = dyn_cast<nn::DimValuesOp>(op))
    return dimValues(each);
  if (isa<nn::ConstantOp, nn::FillOp>(op))
    return constant(nn::constantValue(op->getResult(0)));
  if (op->hasTrait<nn::Rearranges>())
    return moved();
  if (auto each = dyn_cast<nn::SliceOp>(op))
    return slice(each);
  if (auto each = dyn_cast<nn::PadOp>(op))
    return pad(each);
  if (auto each = dyn_cast<nn::ConcatOp>(op))
    return concat(each);
  if (auto each = dyn_cast<nn::GatherOp>(op))
    return gather(each.getAxis());
  if (auto each = dyn_cast<nn::GatherElementsOp>(op))
    return gather(each.getAxis());
  if (auto each = dyn_cast<nn::GatherNDOp>(op))
    return gatherND(each);
  if (auto each = dyn_cast<nn::ScatterNDOp>(op))
    return scatterND(each);
  if (auto each = dyn_cast<nn::MaskedScatterOp>(op))
    return maskedScatter(each);
  if (isa<nn::ReduceSumOp, nn::ReduceMeanOp, nn::ReduceMaxOp, nn::ReduceMinOp, nn::ReduceProdOp>(op))
    return reduce(cast<DenseI64ArrayAttr>(op->getAttr("axes")));
  if (auto each = dyn_cast<nn::SoftmaxOp>(op))
    return softmax(each.getAxis(), false);
  if (auto each = dyn_cast<nn::LogSoftmaxOp>(op))
    return softmax(each.getAxis(), true);
  if (auto each = dyn_cast<nn::CumsumOp>(op))
    return cumsum(each);
  if (auto each = dyn_cast<nn::ArgMaxOp>(op))
    return argLargest(each.getAxis(), true, each.getSelectLast());
  if (auto each = dyn_cast<nn::ArgMinOp>(op))
    return argLargest(each.getAxis(), false, each.getSelectLast());
  if (auto each = dyn_cast<nn::MatmulOp>(op))
    return matmul(each);
  if (auto each = dyn_cast<nn::AttentionOp>(op))
    return attention(each);
  if (auto each = dyn_cast<nn::RecurrenceOp>(op))
    return recurrence(each);
  if (auto each = dyn_cast<nn::CrossEntropyOp>(op))
    return crossEntropy(each);
  if (auto each = dyn_cast<nn::ConvOp>(op))
    return window(kernelOf(each), each.getStrides(), each.getPads(), each.getDilations(), 0.0);
  if (auto each = dyn_cast<nn::ConvGradInputOp>(op))
    return transposedConv(each);
  if (auto each = dyn_cast<nn::MaxPoolOp>(op))
    return window(each.getKernel(), each.getStrides(), each.getPads(), each.getDilations(), -kInfinity);
  if (auto each = dyn_cast<nn::AvgPoolOp>(op))
    return window(each.getKernel(), each.getStrides(), each.getPads(), each.getDilations(), std::nullopt);
  if (op->hasTrait<nn::Elementwise>() || isa<nn::DropoutOp>(op))
    return elementwise();
  byRule();
}

//===----------------------------------------------------------------------===//
// Axes by factor rules
//===----------------------------------------------------------------------===//

struct Transfer::Place {
  unsigned factor = 0;
  DimExpr inner = 1; ///< The axis's stride inside the factor.
  DimExpr extent, right;
};

std::optional<Axis> Transfer::axisOf(unsigned i, unsigned dim) {
  const DimExpr &size = shapeOf(i)[dim];
  if (!mentions(size))
    return std::nullopt;
  const Tensor &tensor = operand(i);
  auto found = llvm::find_if(tensor.axes, [&](const Axis &axis) { return axis.dim == dim; });
  if (found == tensor.axes.end())
    return Axis{dim, 1, size, size, tensor.range, 0};
  if (!found->isWholeDim(shapeOf(i)))
    show("works on a dim of " + size.str() + ", of which '" + symbol + "' is a part");
  return *found;
}

std::optional<Transfer::Place> Transfer::placeOf(const nn::DimFactors &dim, const Axis &axis) const {
  DimExpr stride = 1, spanned = 1; // Of the factor at hand; of the faster ones that the axis spans.
  bool spans = false;
  for (unsigned factor : llvm::reverse(dim)) {
    const DimExpr &size = rule.factors[factor].size;
    std::optional<DimExpr> inner = axis.stride.exactQuotient(stride);
    if (!spans && inner && size.exactQuotient(*inner * axis.extent))
      return Place{factor, *inner, axis.extent, axis.right};
    spans |= axis.stride == stride;
    if (spans && mentions(size)) {
      std::optional<DimExpr> right = axis.right.exactQuotient(spanned);
      if (!right || !(spanned * size == axis.extent))
        return std::nullopt;
      return Place{factor, 1, size, *right};
    }
    if (spans)
      spanned = spanned * size;
    stride = stride * size;
  }
  return std::nullopt;
}

llvm::SmallVector<int> Transfer::carry(unsigned i, llvm::function_ref<bool(unsigned)> ignores) {
  llvm::SmallVector<int> targets;
  for (const Axis &axis : operand(i).axes) {
    targets.push_back(-1);
    if (ignores && ignores(axis.dim))
      continue;
    std::optional<Place> place = placeOf(rule.operandDims[i][axis.dim], axis);
    if (!place) {
      show("splits or merges a dim of " + shapeOf(i)[axis.dim].str() + " so that padding of '" + symbol +
           "' cannot be followed");
      continue;
    }
    for (auto [r, result] : llvm::enumerate(results))
      for (auto [dim, factors] : llvm::enumerate(rule.resultDims[r])) {
        auto found = llvm::find(factors, place->factor);
        if (found == factors.end())
          continue;
        Axis moved{unsigned(dim), place->inner, place->extent, place->right, result.range, 0, axis.narrowedBy};
        for (unsigned faster : llvm::ArrayRef(found + 1, factors.end()))
          moved.stride = moved.stride * rule.factors[faster].size;
        // Whole positions of a constant number of elements each are as many positions.
        if (moved.stride.isConstant() && !moved.stride.isConstant(1))
          moved = {moved.dim,       1, moved.extent * moved.stride, moved.right * moved.stride, moved.tail, 0,
                   moved.narrowedBy};
        auto *same = llvm::find_if(result.axes,
                                   [&](const Axis &other) { return other.dim == dim && other.stride == moved.stride; });
        if (same == result.axes.end()) {
          result.axes.push_back(moved);
          same = result.axes.end() - 1;
        } else {
          same->right = smaller(same->right, moved.right);
          same->narrowedBy = same->narrowedBy ? same->narrowedBy : moved.narrowedBy;
        }
        if (r == 0)
          targets.back() = static_cast<int>(same - result.axes.begin());
      }
  }
  return targets;
}

/// What only knows its factors: positions are independent of each other, or padding shows.
void Transfer::byRule() {
  for (unsigned i = 0; i < op->getNumOperands(); ++i) {
    for (auto [dim, factors] : llvm::enumerate(rule.operandDims[i]))
      for (unsigned factor : factors)
        if (mentions(rule.factors[factor].size) && rule.factors[factor].kind != nn::FactorKind::Parallel)
          return show("looks at all positions along '" + symbol + "'");
    carry(i);
  }
  for (unsigned r = 0; r < results.size(); ++r)
    for (auto [dim, size] : llvm::enumerate(nn::typeOf(op->getResult(r)).getShape()))
      for (unsigned factor : rule.resultDims[r][dim])
        if (mentions(size) && rule.factors[factor].kind != nn::FactorKind::Parallel &&
            mentions(rule.factors[factor].size))
          return show("looks at all positions along '" + symbol + "'");
}

//===----------------------------------------------------------------------===//
// Elementwise operators
//===----------------------------------------------------------------------===//

Range Transfer::behind(unsigned i, int own, const Axis &result) const {
  const Tensor &tensor = operand(i);
  if (own < 0)
    return tensor.range;
  const Axis &axis = tensor.axes[own];
  return axis.right == result.right ? axis.tail
                                    : axis.tail.with(tensor.range); // Else some of it lies before this one's end.
}

void Transfer::elementwise() {
  unsigned count = isa<nn::DropoutOp>(op) ? 1 : op->getNumOperands();
  llvm::SmallVector<llvm::SmallVector<int>> targets;
  for (unsigned i = 0; i < count; ++i)
    targets.push_back(carry(i));
  if (isVisible())
    return;
  Tensor &result = results[0];
  auto evaluated = [&](int at) {
    llvm::SmallVector<Range> ranges;
    for (unsigned i = 0; i < count; ++i) {
      auto own = at < 0 ? targets[i].end() : llvm::find(targets[i], at);
      ranges.push_back(own == targets[i].end() ? operand(i).range
                                               : behind(i, int(own - targets[i].begin()), result.axes[at]));
    }
    return evaluate(op, ranges);
  };
  result.range = evaluated(-1);
  for (int at = 0; at < int(result.axes.size()); ++at)
    result.axes[at].tail = evaluated(at);
  addPositions(targets);
  comparePositions(targets);
}

/// Sums, differences and multiples of positions.
void Transfer::addPositions(llvm::ArrayRef<llvm::SmallVector<int>> targets) {
  Tensor &result = results[0];
  if (auto cast = dyn_cast<nn::CastOp>(op); cast && nn::typeOf(cast.getY()).getElementType().isInteger(1))
    return;
  if (!isa<nn::AddOp, nn::SubOp, nn::NegOp, nn::MulOp, nn::CastOp>(op))
    return;
  for (unsigned i = 0; i < targets.size(); ++i)
    if (!operand(i).offset)
      return;
  llvm::SmallVector<int64_t, 2> factors(targets.size(), isa<nn::NegOp>(op) ? -1 : 1);
  int64_t offset = 0;
  if (isa<nn::SubOp>(op))
    factors[1] = -1;
  if (isa<nn::MulOp>(op)) {
    auto isConstant = [&](unsigned i) {
      return llvm::all_of(operand(i).axes, [](const Axis &axis) { return axis.coefficient == 0; });
    };
    if (!isConstant(0) && !isConstant(1))
      return;
    unsigned constant = isConstant(0) ? 0 : 1;
    factors[1 - constant] = *operand(constant).offset;
    factors[constant] = 0;
  }
  for (unsigned i = 0; i < targets.size(); ++i) {
    offset += factors[i] * *operand(i).offset;
    for (auto [axis, target] : llvm::zip(operand(i).axes, targets[i]))
      if (target >= 0)
        result.axes[target].coefficient += factors[i] * axis.coefficient;
  }
  result.offset = offset;
  result.range = positions(result);
  for (Axis &axis : result.axes)
    axis.tail = positionsBehind(result, axis);
}

/// i < j, where both are positions: what lies behind the end is later than what does not.
void Transfer::comparePositions(llvm::ArrayRef<llvm::SmallVector<int>> targets) {
  if (!isa<nn::LessOp, nn::LessEqualOp, nn::GreaterOp, nn::GreaterEqualOp, nn::EqualOp>(op) || !operand(0).offset ||
      !operand(1).offset)
    return;
  Tensor difference = results[0];
  difference.offset = *operand(0).offset - *operand(1).offset;
  for (unsigned i : {0u, 1u})
    for (auto [axis, target] : llvm::zip(operand(i).axes, targets[i]))
      if (target >= 0)
        difference.axes[target].coefficient += i == 0 ? axis.coefficient : -axis.coefficient;
  results[0].range = evaluate(op, {positions(difference), Range::point(0)});
  for (auto [axis, by] : llvm::zip(results[0].axes, difference.axes))
    axis.tail = evaluate(op, {positionsBehind(difference, by), Range::point(0)});
}

/// The same elements elsewhere.
void Transfer::moved() {
  llvm::SmallVector<int> targets = carry(0);
  Tensor &result = results[0];
  result.range = operand(0).range;
  result.offset = operand(0).offset;
  for (auto [axis, target] : llvm::zip(operand(0).axes, targets)) {
    if (target < 0)
      continue;
    result.axes[target].tail = axis.tail;
    result.axes[target].coefficient = axis.coefficient;
    if (axis.coefficient != 0 && !(result.axes[target].extent == axis.extent))
      result.offset.reset();
  }
}

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

void Transfer::iota(nn::IotaOp iota) {
  const DimExpr &size = nn::typeOf(iota.getResult()).getShape()[0], &start = iota.getStart().getValues()[0],
                &step = iota.getStep().getValues()[0];
  if (mentions(start) || mentions(step))
    return show("numbers positions from the end of '" + symbol + "'");
  Tensor &result = results[0];
  std::optional<int64_t> first = start.asConstant(), by = step.asConstant();
  if (first && by && *first >= 0 && *by >= 0)
    result.range.low = static_cast<double>(*first);
  if (!mentions(size))
    return;
  result.axes.push_back({0, 1, size, size, result.range, by.value_or(0)});
  if (!first || !by)
    return;
  result.offset = first;
  result.range = positions(result);
  result.axes[0].tail = positionsBehind(result, result.axes[0]);
}

void Transfer::dimValues(nn::DimValuesOp values) {
  for (const DimExpr &value : values.getValues().getValues())
    if (mentions(value))
      return show("counts " + value.str() + " positions");
  results[0].range.low = 0;
}

void Transfer::constant(std::optional<double> value) {
  if (!value)
    return;
  results[0].range = Range::point(*value);
  if (*value == static_cast<double>(static_cast<int64_t>(std::clamp(*value, -1e15, 1e15))))
    results[0].offset = static_cast<int64_t>(*value);
}

} // namespace maestro::padding
