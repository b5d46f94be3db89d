#include "planner/import/index_bound.h"

#include "base/saturate.h"

#include "llvm/ADT/TypeSwitch.h"

namespace maestro::planner {
namespace {

using Bound = std::optional<DimExpr>;

/// Positions are a few operators away from their iota; a file may hold chains that are not worth following.
constexpr int kDepth = 12;

Bound boundOfValue(mlir::Value value, int depth);

Bound largest(nn::ConstantOp op, int) {
  auto values = mlir::dyn_cast<mlir::DenseIntElementsAttr>(op.getValue());
  if (!values || values.empty())
    return std::nullopt;
  llvm::APInt most = *values.value_begin<llvm::APInt>();
  for (const llvm::APInt &value : values)
    most = value.sgt(most) ? value : most;
  return DimExpr(most.getBitWidth() == 1 ? 1 : most.getSExtValue());
}

Bound largest(nn::IotaOp op, int) {
  DimExpr start = op.getStart().getValues()[0], step = op.getStep().getValues()[0];
  auto increment = step.asConstant();
  if (!increment || *increment < 0)
    return start;
  return start + step * (nn::typeOf(op.getResult()).getShape()[0] - 1);
}

mlir::Value withoutCasts(mlir::Value value) {
  while (auto cast = value.getDefiningOp<nn::CastOp>())
    value = cast.getX();
  return value;
}

/// Whether `value` counts along `mask`, which may silence it again.
bool counts(mlir::Value value, mlir::Value mask) {
  auto sum = withoutCasts(value).getDefiningOp<nn::CumsumOp>();
  return sum && withoutCasts(sum.getX()) == withoutCasts(mask);
}

/// Products of what is never negative: a running count times its mask.
Bound largest(nn::MulOp op, int depth) {
  if (counts(op.getLhs(), op.getRhs()))
    return boundOfValue(op.getLhs(), depth);
  if (counts(op.getRhs(), op.getLhs()))
    return boundOfValue(op.getRhs(), depth);
  Bound a = boundOfValue(op.getLhs(), depth), b = boundOfValue(op.getRhs(), depth);
  bool isScaled = a && b && (a->isConstant() || b->isConstant());
  return isScaled ? Bound(*a * *b) : std::nullopt;
}

Bound largest(nn::SubOp op, int depth) {
  Bound a = boundOfValue(op.getLhs(), depth);
  auto b = nn::constantValue(op.getRhs());
  return a && b ? Bound(*a - static_cast<int64_t>(*b)) : std::nullopt;
}

Bound largest(nn::CumsumOp op, int depth) {
  Bound each =
      mlir::isa<mlir::BlockArgument>(withoutCasts(op.getX())) ? Bound(DimExpr(1)) : boundOfValue(op.getX(), depth);
  return each ? Bound(*each * nn::typeOf(op.getX()).getShape()[op.getAxis()]) : std::nullopt;
}

Bound boundOfValue(mlir::Value value, int depth) {
  mlir::Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return std::nullopt;
  mlir::Type element = nn::typeOf(value).getElementType();
  if (element.isInteger(1))
    return DimExpr(1);
  if (auto cast = mlir::dyn_cast<nn::CastOp>(op)) {
    bool fromInteger = mlir::isa<mlir::IntegerType>(nn::typeOf(cast.getX()).getElementType());
    return fromInteger ? boundOfValue(cast.getX(), depth - 1) : std::nullopt;
  }
  if (op->hasTrait<nn::Rearranges>() || mlir::isa<nn::SliceOp, nn::GatherOp>(op))
    return boundOfValue(op->getOperand(0), depth - 1);
  return llvm::TypeSwitch<mlir::Operation *, Bound>(op)
      .Case<nn::ConstantOp, nn::IotaOp, nn::MulOp, nn::SubOp, nn::CumsumOp>(
          [&](auto each) { return largest(each, depth - 1); })
      .Case([](nn::FillOp fill) { return Bound(DimExpr(saturatedInt64(fill.getValue().convertToDouble()))); })
      .Case([&](nn::AddOp add) {
        Bound a = boundOfValue(add.getLhs(), depth - 1), b = boundOfValue(add.getRhs(), depth - 1);
        return a && b ? Bound(*a + *b) : std::nullopt;
      })
      .Case([&](nn::MaximumOp each) {
        Bound a = boundOfValue(each.getLhs(), depth - 1), b = boundOfValue(each.getRhs(), depth - 1);
        return a && b ? Bound(DimExpr::max(*a, *b)) : std::nullopt;
      })
      .Case([&](nn::MinimumOp each) {
        Bound a = boundOfValue(each.getLhs(), depth - 1), b = boundOfValue(each.getRhs(), depth - 1);
        return a && b ? Bound(DimExpr::min(*a, *b)) : a ? a : b;
      })
      .Default(Bound());
}

//===----------------------------------------------------------------------===//
// What a field's values may be
//===----------------------------------------------------------------------===//

/// Follows a field's values, shifted by `offset`, to what they index.
class IndexUses {
public:
  IndexRange range;

  void follow(mlir::Value value, int64_t offset, std::optional<int64_t> exempt, int depth) {
    if (depth > 0)
      for (mlir::OpOperand &use : value.getUses())
        follow(use, offset, exempt, depth - 1);
  }

private:
  void follow(mlir::OpOperand &use, int64_t offset, std::optional<int64_t> exempt, int depth) {
    mlir::Operation *op = use.getOwner();
    unsigned number = use.getOperandNumber();
    if (op->getNumResults() == 0)
      return;
    bool keepsIntegers = isInteger(*nn::dtypeOf(nn::typeOf(op->getResult(0)).getElementType()));
    if (op->hasTrait<nn::MovesData>() || mlir::isa<nn::CastOp>(op)) {
      if (keepsIntegers)
        follow(op->getResult(0), offset, exempt, depth);
    } else if (mlir::isa<nn::AddOp, nn::SubOp>(op) && keepsIntegers) {
      auto other = nn::constantValue(op->getOperand(1 - number));
      bool isAdd = mlir::isa<nn::AddOp>(op);
      if (other && (isAdd || number == 0))
        follow(op->getResult(0), offset + static_cast<int64_t>(isAdd ? *other : -*other), exempt, depth);
    } else if (auto where = mlir::dyn_cast<nn::WhereOp>(op)) {
      if (auto replaced = number == 0 ? std::nullopt : replacedValue(where, use.get(), number == 1))
        follow(op->getResult(0), offset, *replaced - offset, depth);
    } else if (auto gather = mlir::dyn_cast<nn::GatherOp>(op)) {
      if (number == 1)
        indexes(nn::typeOf(gather.getData()).getShape()[gather.getAxis()], offset, exempt);
    } else if (auto gather = mlir::dyn_cast<nn::GatherElementsOp>(op)) {
      if (number == 1)
        indexes(nn::typeOf(gather.getData()).getShape()[gather.getAxis()], offset, exempt);
    } else if (auto loss = mlir::dyn_cast<nn::CrossEntropyOp>(op); loss && number == 1) {
      indexes(nn::typeOf(loss.getLogits()).getShape().back(), offset,
              static_cast<int64_t>(loss.getIgnoreIndex()) - offset);
    }
  }

  /// The value c that where(v == c, other, v) keeps from passing. Under any other condition, nobody knows which values
  /// pass.
  static std::optional<int64_t> replacedValue(nn::WhereOp where, mlir::Value value, bool onTrue) {
    mlir::Value condition = where.getCondition();
    auto negated = condition.getDefiningOp<nn::NotOp>();
    auto equal = (negated ? negated.getX() : condition).getDefiningOp<nn::EqualOp>();
    if (!equal || static_cast<bool>(negated) != onTrue)
      return std::nullopt;
    mlir::Value other = equal.getLhs() == value   ? equal.getRhs()
                        : equal.getRhs() == value ? equal.getLhs()
                                                  : mlir::Value();
    auto constant = other ? nn::constantValue(other) : std::nullopt;
    return constant ? std::optional(static_cast<int64_t>(*constant)) : std::nullopt;
  }

  void indexes(const DimExpr &size, int64_t offset, std::optional<int64_t> exempt) {
    auto constant = size.asConstant();
    if (!constant)
      return;
    int64_t limit = *constant - offset;
    range.limit = range.limit ? std::min(*range.limit, limit) : limit;
    if (exempt)
      range.ignored = exempt;
  }
};

} // namespace

IndexRange indexRange(mlir::Value field) {
  IndexUses uses;
  uses.follow(field, 0, std::nullopt, kDepth);
  return uses.range;
}

std::optional<DimExpr> largestValue(mlir::Value value) { return boundOfValue(value, kDepth); }

} // namespace maestro::planner
