#include "passes/affine_values.h"

#include <cmath>

using namespace mlir;

namespace maestro {
namespace {

llvm::ArrayRef<DimExpr> shapeOf(Value value) { return nn::typeOf(value).getShape(); }
unsigned rankOf(Value value) { return static_cast<unsigned>(shapeOf(value).size()); }
AffineValue constant(int64_t value, unsigned rank) { return {value, llvm::SmallVector<int64_t>(rank, 0)}; }

/// As broadcast to `shape`, from its last dim on.
AffineValue broadcast(const AffineValue &value, llvm::ArrayRef<DimExpr> shape) {
  AffineValue result = constant(value.constant, static_cast<unsigned>(shape.size()));
  size_t lead = shape.size() - value.coefficients.size();
  for (auto [dim, coefficient] : llvm::enumerate(value.coefficients))
    result.coefficients[lead + dim] = coefficient;
  return result;
}

} // namespace

AffineValue AffineValues::sum(const AffineValue &a, const AffineValue &b, int64_t factor,
                              llvm::ArrayRef<DimExpr> shape) {
  AffineValue result = broadcast(a, shape), other = broadcast(b, shape);
  result.constant += factor * other.constant;
  for (auto [own, added] : llvm::zip(result.coefficients, other.coefficients))
    own += factor * added;
  return result;
}

std::optional<AffineValue> AffineValues::of(Value value) {
  auto found = known.find(value);
  if (found != known.end())
    return found->second;
  Operation *op = value.getDefiningOp();
  std::optional<AffineValue> result;
  if (op && isa<IntegerType>(nn::typeOf(value).getElementType()))
    result = compute(op, value);
  if (result)
    for (auto [size, coefficient] : llvm::zip(shapeOf(value), result->coefficients))
      if (size.isConstant(1))
        coefficient = 0;
  known[value] = result;
  return result;
}

std::optional<AffineValue> AffineValues::compute(Operation *op, Value value) {
  constexpr double kExact = 9007199254740992.0; // Integers that a double holds.
  if (std::optional<double> uniform = nn::constantValue(value)) {
    if (*uniform != std::floor(*uniform) || std::abs(*uniform) > kExact)
      return std::nullopt;
    return constant(static_cast<int64_t>(*uniform), rankOf(value));
  }
  if (auto iota = dyn_cast<nn::IotaOp>(op)) {
    auto start = iota.getStart().getValues()[0].asConstant(), step = iota.getStep().getValues()[0].asConstant();
    return start && step ? std::optional(AffineValue{*start, {*step}}) : std::nullopt;
  }
  if (auto reshape = dyn_cast<nn::ReshapeOp>(op))
    return ofReshape(reshape);
  if (auto slice = dyn_cast<nn::SliceOp>(op))
    return ofSlice(slice);
  if (auto concat = dyn_cast<nn::ConcatOp>(op))
    return ofConcat(concat);
  if (auto gather = dyn_cast<nn::GatherNDOp>(op))
    return ofGather(gather);
  if (!isa<nn::BroadcastToOp, nn::CastOp, nn::NotOp, nn::CumsumOp, nn::AddOp, nn::SubOp, nn::EqualOp, nn::AndOp>(op))
    return std::nullopt;

  llvm::SmallVector<AffineValue> operands;
  for (Value operand : op->getOperands())
    if (std::optional<AffineValue> known = of(operand))
      operands.push_back(*known);
    else
      return std::nullopt;
  const AffineValue &x = operands[0];
  if (isa<nn::BroadcastToOp>(op))
    return broadcast(x, shapeOf(value));
  if (isa<nn::AddOp, nn::SubOp>(op))
    return sum(x, operands[1], isa<nn::AddOp>(op) ? 1 : -1, shapeOf(value));
  if (auto cast = dyn_cast<nn::CastOp>(op)) {
    bool toTruth = nn::typeOf(value).getElementType().isInteger(1);
    if (!toTruth)
      return x;
    return x.isConstant() ? std::optional(constant(x.constant != 0, rankOf(value))) : std::nullopt;
  }
  if (isa<nn::EqualOp>(op)) {
    AffineValue difference = sum(x, operands[1], -1, shapeOf(value));
    return difference.isConstant() ? std::optional(constant(difference.constant == 0, rankOf(value))) : std::nullopt;
  }
  // Of constants alone.
  if (!llvm::all_of(operands, [](const AffineValue &each) { return each.isConstant(); }))
    return std::nullopt;
  if (isa<nn::NotOp>(op))
    return constant(x.constant == 0, rankOf(value));
  if (isa<nn::AndOp>(op))
    return constant(x.constant != 0 && operands[1].constant != 0, rankOf(value));
  return x.constant == 0 ? std::optional(x) : std::nullopt; // Sums of zeros.
}

/// Dims of size 1 come and go.
std::optional<AffineValue> AffineValues::ofReshape(nn::ReshapeOp op) {
  std::optional<AffineValue> x = of(op.getX());
  if (!x)
    return std::nullopt;
  llvm::ArrayRef<DimExpr> from = shapeOf(op.getX()), to = shapeOf(op->getResult(0));
  AffineValue result = constant(x->constant, static_cast<unsigned>(to.size()));
  if (x->isConstant())
    return result;
  unsigned source = 0;
  auto skipOnes = [&] {
    while (source < from.size() && from[source].isConstant(1))
      ++source;
  };
  for (unsigned target = 0; target < to.size(); ++target) {
    if (to[target].isConstant(1))
      continue;
    skipOnes();
    if (source == from.size() || !(from[source] == to[target]))
      return std::nullopt;
    result.coefficients[target] = x->coefficients[source++];
  }
  skipOnes();
  return source == from.size() ? std::optional(result) : std::nullopt;
}

std::optional<AffineValue> AffineValues::ofSlice(nn::SliceOp op) {
  std::optional<AffineValue> x = of(op.getX());
  if (!x)
    return std::nullopt;
  for (auto [dim, offset] : llvm::enumerate(op.getOffsets().getValues())) {
    std::optional<int64_t> first = offset.asConstant();
    if (x->coefficients[dim] != 0 && !first)
      return std::nullopt;
    x->constant += x->coefficients[dim] * first.value_or(0);
    x->coefficients[dim] *= op.getSteps()[dim];
  }
  return x;
}

/// One after the other what one formula says of the whole. A piece of one position has no coefficient of its own.
std::optional<AffineValue> AffineValues::ofConcat(nn::ConcatOp op) {
  unsigned axis = static_cast<unsigned>(op.getAxis());
  std::optional<AffineValue> whole;
  llvm::SmallVector<std::pair<AffineValue, std::optional<int64_t>>> pieces; // And where each begins.
  std::optional<int64_t> begin = 0;
  for (Value input : op.getInputs()) {
    std::optional<AffineValue> piece = of(input);
    if (!piece || !begin)
      return std::nullopt;
    std::optional<int64_t> size = shapeOf(input)[axis].asConstant();
    if (size != 1 && !whole) {
      whole = *piece;
      whole->constant -= piece->coefficients[axis] * *begin;
    }
    pieces.push_back({*piece, begin});
    begin = size ? std::optional(*begin + *size) : std::nullopt;
  }
  if (!whole)
    return std::nullopt;
  for (auto [index, entry] : llvm::enumerate(pieces)) {
    auto &[piece, first] = entry;
    bool isOne = shapeOf(op.getInputs()[index])[axis].isConstant(1);
    for (auto [dim, coefficient] : llvm::enumerate(piece.coefficients))
      if (coefficient != whole->coefficients[dim] && !(dim == axis && isOne))
        return std::nullopt;
    if (piece.constant != whole->constant + whole->coefficients[axis] * *first)
      return std::nullopt;
  }
  return whole;
}

std::optional<AffineValue> AffineValues::ofGather(nn::GatherNDOp op) {
  std::optional<AffineValue> data = of(op.getData());
  if (!data)
    return std::nullopt;
  unsigned rank = rankOf(op.getResult());
  if (data->isConstant())
    return constant(data->constant, rank);
  // Indices that name whole elements, each dim's a piece of its own.
  auto indices = op.getIndices().getDefiningOp<nn::ConcatOp>();
  unsigned last = rankOf(op.getIndices()) - 1;
  if (op.getBatchDims() != 0 || !indices || indices.getAxis() != last ||
      indices.getInputs().size() != data->coefficients.size() || rank != last)
    return std::nullopt;
  AffineValue result = constant(data->constant, rank);
  for (auto [dim, input] : llvm::enumerate(indices.getInputs())) {
    if (data->coefficients[dim] == 0)
      continue;
    std::optional<AffineValue> index = of(input);
    if (!index || !shapeOf(input)[last].isConstant(1))
      return std::nullopt;
    index->coefficients.pop_back();
    result = sum(result, *index, data->coefficients[dim], shapeOf(op.getResult()));
  }
  return result;
}

} // namespace maestro
