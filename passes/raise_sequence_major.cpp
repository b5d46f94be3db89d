// Attention on the layout that products write, [batch, positions, heads, depth].
//
//   %q1 = nn.transpose %q {permutation = array<i64: 0, 2, 1, 3>}       %q2 = nn.rope %q, %cos1, %sin1
//   %q2 = nn.rope %q1, %cos, %sin                                      …
//   …                                                            ─▶    %o1 = nn.attention %q2, %k2, %v {sequence_major}
//   %o, %lse = nn.attention %q2, %k2, %v2                              %o = nn.transpose %o1 {…}
//
// where q, k and v all come that way. What follows turns the result back, and the two transposes fold: none is left, in
// the gradient neither. cos1 and sin1 are cos and sin with the two dims swapped, which is a reshape where one is 1.
#include "passes/raise_matchers.h"
#include "passes/raise_patterns.h"

using namespace mlir;

namespace maestro {
namespace {

constexpr int64_t kSwapped[] = {0, 2, 1, 3};

/// What `value` is the swap of; null where it is none.
Value underSwap(Value value) {
  auto transpose = value.getDefiningOp<nn::TransposeOp>();
  return transpose && transpose.getPermutation() == llvm::ArrayRef(kSwapped) ? transpose.getX() : Value();
}

/// A rotary embedding that only attention reads.
nn::RopeOp ropeOf(Value value) { return value.hasOneUse() ? value.getDefiningOp<nn::RopeOp>() : nullptr; }

bool comesSwapped(Value value) {
  nn::RopeOp rope = ropeOf(value);
  return raise::rankOf(value) == 4 && underSwap(rope ? rope.getX() : value);
}

Value swapped(Value value, PatternRewriter &rewriter) {
  return nn::TransposeOp::create(rewriter, value.getLoc(), value, kSwapped);
}

/// A table that broadcasts to [batch, heads, positions, depth], for the other order.
Value swappedTable(Value table, PatternRewriter &rewriter) {
  llvm::SmallVector<DimExpr> shape(4 - raise::rankOf(table), DimExpr(1));
  llvm::append_range(shape, raise::shapeOf(table));
  auto shaped = [&] {
    auto type = nn::TensorType::get(table.getContext(), shape, raise::elementOf(table));
    return nn::ReshapeOp::create(rewriter, table.getLoc(), type, table).getResult();
  };
  if (!shape[1].isConstant(1) && !shape[2].isConstant(1))
    return swapped(shaped(), rewriter);
  std::swap(shape[1], shape[2]);
  return shaped();
}

Value unswapped(Value value, PatternRewriter &rewriter) {
  nn::RopeOp rope = ropeOf(value);
  if (!rope)
    return underSwap(value);
  Value x = underSwap(rope.getX());
  return nn::RopeOp::create(rewriter, rope.getLoc(), x.getType(), x, swappedTable(rope.getCos(), rewriter),
                            swappedTable(rope.getSin(), rewriter), rope.getInterleaved(), rope.getAdjoint());
}

struct RaiseSequenceMajor : OpRewritePattern<nn::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::AttentionOp op, PatternRewriter &rewriter) const override {
    if (op.getSequenceMajor() || !comesSwapped(op.getQ()) || !comesSwapped(op.getK()) || !comesSwapped(op.getV()))
      return failure();
    auto attention =
        nn::AttentionOp::create(rewriter, op.getLoc(), unswapped(op.getQ(), rewriter), unswapped(op.getK(), rewriter),
                                unswapped(op.getV(), rewriter), op.getMask(), op.getScale(), op.getSoftcap(),
                                op.getCausal(), op.getCausalOffset(), /*sequence_major=*/true);
    rewriter.replaceOp(op, {swapped(attention.getO(), rewriter), attention.getLse()});
    return success();
  }
};

} // namespace

void addRaiseSequenceMajorPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseSequenceMajor>(patterns.getContext());
}

} // namespace maestro
