// Rotary embeddings: x·cos + rotate(x)·sin with rotate(x) = concat(−x₂, x₁) of the halves of the last dim.
//
//   %a = nn.mul %x, %cos
//   %b = nn.mul (nn.concat (nn.neg (slice of the upper half), slice of the lower half)), %sin
//   %y = nn.add %a, %b                                    ─▶  nn.rope %x, %cos, %sin
#include "passes/raise_matchers.h"
#include "passes/raise_patterns.h"

using namespace mlir;

namespace maestro {
namespace {

/// Whether `value` is x[…, offset : offset + D/2].
bool isHalf(Value value, Value x, bool upper) {
  auto slice = value.getDefiningOp<nn::SliceOp>();
  if (!slice || slice.getX() != x)
    return false;
  int64_t last = raise::rankOf(x) - 1;
  std::optional<int64_t> size = raise::shapeOf(x)[last].asConstant();
  if (!size || *size % 2 != 0 || !raise::shapeOf(value)[last].isConstant(*size / 2))
    return false;
  llvm::ArrayRef<DimExpr> offsets = slice.getOffsets().getValues();
  for (int64_t i = 0; i <= last; ++i) {
    bool isLast = i == last;
    if (slice.getSteps()[i] != 1 || !offsets[i].isConstant(isLast && upper ? *size / 2 : 0))
      return false;
    if (!isLast && !(raise::shapeOf(value)[i] == raise::shapeOf(x)[i]))
      return false;
  }
  return true;
}

bool isRotation(Value value, Value x) {
  auto concat = value.getDefiningOp<nn::ConcatOp>();
  if (!concat || concat.getInputs().size() != 2 || concat.getAxis() != static_cast<uint64_t>(raise::rankOf(x) - 1))
    return false;
  auto negated = concat.getInputs()[0].getDefiningOp<nn::NegOp>();
  return negated && isHalf(negated.getX(), x, true) && isHalf(concat.getInputs()[1], x, false);
}

struct RaiseRope : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::AddOp op, PatternRewriter &rewriter) const override {
    auto straight = op.getLhs().getDefiningOp<nn::MulOp>(), turned = op.getRhs().getDefiningOp<nn::MulOp>();
    if (!straight || !turned)
      return failure();
    for (int order = 0; order < 2; ++order, std::swap(straight, turned))
      for (Value x : {straight.getLhs(), straight.getRhs()}) {
        auto rotated = raise::inEitherOrder(turned, [&](Value rotation, Value) { return isRotation(rotation, x); });
        if (!rotated || x.getType() != op.getType())
          continue;
        Value cos = x == straight.getLhs() ? straight.getRhs() : straight.getLhs();
        rewriter.replaceOpWithNewOp<nn::RopeOp>(op, op.getType(), x, cos, rotated->second);
        return success();
      }
    return failure();
  }
};

} // namespace

void addRaiseRopePatterns(RewritePatternSet &patterns) { patterns.add<RaiseRope>(patterns.getContext()); }

} // namespace maestro
