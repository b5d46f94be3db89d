// Attention out of its products and softmax.
//
//   scores = q·kᵀ (· scale, as a factor on q, k or the product) (softcap·tanh(·/softcap)) (+ mask)
//   probabilities = softmax(scores, last dim) (rows without anything attended set to 0: isnan/where)
//   o = probabilities · v                                            ─▶  nn.attention %q, %k, %v, %mask
//
// The probabilities are never kept: the gradient recomputes them.
#include "passes/graph_functions.h"
#include "passes/raise_matchers.h"
#include "passes/raise_patterns.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace maestro {
namespace {

/// The probabilities under where(isnan(p), 0, p), or `value` itself.
Value underNanGuard(Value value) {
  auto where = value.getDefiningOp<nn::WhereOp>();
  if (!where || !raise::isUniform(where.getOnTrue(), 0.0))
    return value;
  auto isNaN = where.getCondition().getDefiningOp<nn::IsNaNOp>();
  return isNaN && isNaN.getX() == where.getOnFalse() ? where.getOnFalse() : value;
}

struct Scores {
  Value q, k;          ///< k [B, H, T, D] …
  bool swapped = true; ///< … or [B, H, D, T]
  Value mask;          ///< null: none
  double scale = 1, softcap = 0;
};

/// [B, H, T, D] when `value` [B, H, D, T] came from it by way of [B*H, T, D] and [B*H, D, T].
Value underFlatTranspose(Value value, PatternRewriter &rewriter) {
  auto split = value.getDefiningOp<nn::ReshapeOp>();
  auto transpose = split ? split.getX().getDefiningOp<nn::TransposeOp>() : nullptr;
  if (!transpose || raise::rankOf(value) != 4 || transpose.getPermutation() != llvm::ArrayRef<int64_t>{0, 2, 1})
    return nullptr;
  llvm::ArrayRef<DimExpr> shape = raise::shapeOf(value), flat = raise::shapeOf(transpose);
  if (!(shape[0] * shape[1] == flat[0]) || !(shape[2] == flat[1]) || !(shape[3] == flat[2]))
    return nullptr;
  Value source = transpose.getX();
  if (auto flatten = source.getDefiningOp<nn::ReshapeOp>())
    source = flatten.getX();
  auto type =
      nn::TensorType::get(value.getContext(), {shape[0], shape[1], shape[3], shape[2]}, raise::elementOf(value));
  return source.getType() == type ? source : nn::ReshapeOp::create(rewriter, value.getLoc(), type, source).getResult();
}

/// [B, H, D, T] -> [B, H, T, D]; looks through the transpose that made it, so that what lies below is seen.
Value swapLastTwo(Value value, PatternRewriter &rewriter) {
  if (Value source = underFlatTranspose(value, rewriter))
    return source;
  llvm::SmallVector<int64_t> permutation = {0, 1, 3, 2};
  if (auto transpose = value.getDefiningOp<nn::TransposeOp>()) {
    llvm::ArrayRef<int64_t> below = transpose.getPermutation();
    permutation = {below[0], below[1], below[3], below[2]};
    value = transpose.getX();
  }
  if (llvm::is_sorted(permutation))
    return value;
  return nn::TransposeOp::create(rewriter, value.getLoc(), value, permutation);
}

/// `a` is the mask when it broadcasts to the scores and the scores have the sum's type already.
std::optional<std::pair<Value, Value>> splitMask(Value value) {
  auto sum = value.getDefiningOp<nn::AddOp>();
  if (!sum)
    return std::nullopt;
  return raise::inEitherOrder(sum, [&](Value scores, Value mask) {
    raise::WithConstant inner = raise::scaledValue(scores);
    bool isProduct =
        inner.other.getDefiningOp<nn::MatmulOp>() != nullptr || inner.other.getDefiningOp<nn::TanhOp>() != nullptr;
    return isProduct && scores.getType() == sum.getType() && raise::rankOf(mask) <= 4;
  });
}

std::optional<Scores> matchScores(Value value) {
  Scores scores;
  if (auto split = splitMask(value)) {
    value = split->first;
    scores.mask = split->second;
  }
  raise::WithConstant outer = raise::scaledValue(value);
  if (auto tanh = outer.other.getDefiningOp<nn::TanhOp>()) {
    raise::WithConstant inner = raise::scaledValue(tanh.getX());
    if (std::abs(inner.constant * outer.constant - 1) > 1e-6)
      return std::nullopt;
    scores.softcap = outer.constant;
    outer = raise::scaledValue(inner.other);
  }
  auto product = outer.other.getDefiningOp<nn::MatmulOp>();
  if (!product || product.getBias() || product.getTransposeA() || raise::rankOf(product) != 4 ||
      raise::rankOf(product.getA()) != 4 || raise::rankOf(product.getB()) != 4)
    return std::nullopt;
  raise::WithConstant q = raise::scaledValue(product.getA()), k = raise::scaledValue(product.getB());
  // A factor of a single element could broadcast a smaller tensor: the shapes must stay.
  if (q.other.getType() != product.getA().getType() || k.other.getType() != product.getB().getType())
    return std::nullopt;
  scores.scale = outer.constant * q.constant * k.constant;
  scores.q = q.other;
  scores.k = k.other;
  scores.swapped = !product.getTransposeB();
  return scores;
}

/// A mask of rank below 4 gains leading ones.
Value withRankFour(Value mask, PatternRewriter &rewriter) {
  llvm::SmallVector<DimExpr> shape(4 - raise::rankOf(mask), DimExpr(1));
  llvm::append_range(shape, raise::shapeOf(mask));
  if (raise::rankOf(mask) == 4)
    return mask;
  auto type = nn::TensorType::get(mask.getContext(), shape, raise::elementOf(mask));
  return nn::ReshapeOp::create(rewriter, mask.getLoc(), type, mask);
}

/// The truth values of where(mask, 0, −∞), which mean the same and are smaller; `mask` otherwise.
Value asTruth(Value mask) {
  auto where = raise::throughWidening(mask).getDefiningOp<nn::WhereOp>();
  if (!where || !raise::isUniform(where.getOnTrue(), 0.0) ||
      raise::shapeOf(where.getCondition()) != raise::shapeOf(where))
    return mask;
  return nn::constantValue(where.getOnFalse()) == -std::numeric_limits<double>::infinity() ? where.getCondition()
                                                                                           : mask;
}

struct RaiseAttention : OpRewritePattern<nn::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MatmulOp op, PatternRewriter &rewriter) const override {
    if (op.getBias() || op.getTransposeA() || op.getTransposeB() || raise::rankOf(op) != 4 ||
        raise::rankOf(op.getB()) != 4)
      return failure();
    Value probabilities = raise::throughWidening(underNanGuard(op.getA()));
    auto softmax = underNanGuard(probabilities).getDefiningOp<nn::SoftmaxOp>();
    if (!softmax || softmax.getAxis() != 3)
      return failure();
    std::optional<Scores> scores = matchScores(raise::throughWidening(softmax.getX()));
    if (!scores || raise::elementOf(scores->q) != raise::elementOf(op.getB()))
      return failure();
    // A mask that trains stays as it is: nn.attention would form the scores anew for its gradient.
    if (scores->mask && dependsOnParameter(scores->mask, /*trainableOnly=*/true))
      return failure();
    llvm::ArrayRef<DimExpr> q = raise::shapeOf(scores->q), to = raise::shapeOf(op);
    if (!(q[0] == raise::shapeOf(scores->k)[0]) || !(q[0] == raise::shapeOf(op.getB())[0]) ||
        to.take_front(3) != q.take_front(3))
      return failure();
    // Nothing is created before here: what a failed match leaves behind would be matched again without end.
    Value k = scores->swapped ? swapLastTwo(scores->k, rewriter) : scores->k;
    Value mask = scores->mask ? withRankFour(asTruth(scores->mask), rewriter) : Value();
    auto attention = nn::AttentionOp::create(rewriter, op.getLoc(), scores->q, k, op.getB(), mask,
                                             llvm::APFloat(scores->scale), llvm::APFloat(scores->softcap),
                                             /*causal=*/false, /*causal_offset=*/0, /*sequence_major=*/false);
    if (attention.getO().getType() != op.getType()) {
      rewriter.eraseOp(attention);
      return failure();
    }
    rewriter.replaceOp(op, attention.getO());
    return success();
  }
};

} // namespace

void addRaiseAttentionPatterns(RewritePatternSet &patterns) { patterns.add<RaiseAttention>(patterns.getContext()); }

} // namespace maestro
