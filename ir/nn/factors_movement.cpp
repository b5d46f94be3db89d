// Factor rules of operators that move data.
#include "ir/nn/rule_builder.h"

namespace maestro::nn {

using llvm::ArrayRef;

//===----------------------------------------------------------------------===//
// Reshape
//===----------------------------------------------------------------------===//

namespace {
/// Walks the dims of both shapes at once, row-major, cutting off the factors that they share.
class ReshapeMatcher {
public:
  explicit ReshapeMatcher(RuleBuilder &builder)
      : builder(builder), x{builder.operandShape(0), builder.operand(0)}, y{builder.resultShape(0), builder.result(0)} {
  }

  void match() {
    while (x.next() && y.next() && takeCommonFactor())
      continue;
    matchBackwards();
    for (Side *side : {&x, &y})
      while (side->next())
        side->close(builder.factor(side->rest, FactorKind::Whole));
  }

private:
  /// One of the two shapes: dim `at` is being cut, `rest` is what is left of it.
  struct Side {
    ArrayRef<DimExpr> shape;
    TensorFactors &factors;
    size_t at = 0, end = 0;
    DimExpr rest = 1;
    bool open = false;

    Side(ArrayRef<DimExpr> shape, TensorFactors &factors) : shape(shape), factors(factors), end(shape.size()) {}

    /// Goes to the next dim that is not 1; false behind the last.
    bool next() {
      while (!open && at < end) {
        rest = shape[at];
        open = !rest.isConstant(1);
        at += open ? 0 : 1;
      }
      return open;
    }
    void cut(const DimFactors &factor, const DimExpr &left) {
      factors[at].append(factor);
      rest = left;
    }
    void close(const DimFactors &factor) {
      cut(factor, 1);
      open = false;
      ++at;
    }
  };

  bool takeCommonFactor() {
    if (x.rest == y.rest) {
      DimFactors factor = builder.factor(x.rest);
      x.close(factor);
      y.close(factor);
      return true;
    }
    return divide(x, y) || divide(y, x);
  }

  /// large.rest = small.rest · more
  bool divide(Side &large, Side &small) {
    std::optional<DimExpr> more = large.rest.exactQuotient(small.rest);
    if (!more)
      return false;
    DimFactors factor = builder.factor(small.rest);
    large.cut(factor, *more);
    small.close(factor);
    return true;
  }

  /// Equal dims at the end, once the walk from the front is stuck.
  void matchBackwards() {
    while (x.end > x.at + x.open && y.end > y.at + y.open && x.shape[x.end - 1] == y.shape[y.end - 1]) {
      DimFactors factor = builder.factor(x.shape[x.end - 1]);
      x.factors[--x.end] = factor;
      y.factors[--y.end] = factor;
    }
  }

  RuleBuilder &builder;
  Side x, y;
};
} // namespace

FactorRule ReshapeOp::getFactorRule() {
  RuleBuilder builder(*this);
  ReshapeMatcher(builder).match();
  return builder.take();
}

//===----------------------------------------------------------------------===//
// Dim by dim
//===----------------------------------------------------------------------===//

FactorRule BroadcastToOp::getFactorRule() { return elementwiseFactorRule(*this); }

FactorRule TransposeOp::getFactorRule() {
  RuleBuilder builder(*this);
  builder.operand(0) = builder.factors(builder.operandShape(0));
  for (auto [to, from] : llvm::enumerate(getPermutation()))
    builder.result(0)[to] = builder.operand(0)[from];
  return builder.take();
}

FactorRule ConcatOp::getFactorRule() {
  RuleBuilder builder(*this);
  unsigned axis = getAxis();
  TensorFactors shared = builder.factors(builder.resultShape(0));
  shared[axis] = builder.factor(builder.resultShape(0)[axis], FactorKind::Whole);
  builder.result(0) = shared;
  for (unsigned i = 0; i < getNumOperands(); ++i) {
    builder.operand(i) = shared;
    builder.operand(i)[axis] = builder.factor(builder.operandShape(i)[axis], FactorKind::Whole);
  }
  return builder.take();
}

/// Operand and result have the same rank; a dim that is taken as it is may be split.
static FactorRule dimByDim(mlir::Operation *op, llvm::function_ref<bool(unsigned)> isUntouched) {
  RuleBuilder builder(op);
  for (unsigned dim = 0; dim < builder.operandShape(0).size(); ++dim) {
    if (isUntouched(dim) && builder.operandShape(0)[dim] == builder.resultShape(0)[dim])
      builder.operand(0)[dim] = builder.result(0)[dim] = builder.factor(builder.resultShape(0)[dim]);
    else
      builder.unrelated(0, dim, 0, dim);
  }
  return builder.take();
}

FactorRule SliceOp::getFactorRule() {
  return dimByDim(*this,
                  [&](unsigned dim) { return getOffsets().getValues()[dim].isConstant(0) && getSteps()[dim] == 1; });
}

FactorRule SliceGradOp::getFactorRule() {
  return dimByDim(*this,
                  [&](unsigned dim) { return getOffsets().getValues()[dim].isConstant(0) && getSteps()[dim] == 1; });
}

FactorRule PadOp::getFactorRule() {
  return dimByDim(*this, [&](unsigned dim) {
    return getLow().getValues()[dim].isConstant(0) && getHigh().getValues()[dim].isConstant(0);
  });
}

} // namespace maestro::nn
