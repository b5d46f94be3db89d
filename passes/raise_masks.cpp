// Masks of scaled_dot_product_attention that are exact.
//
//   p = softmax(scores + where(mask, 0, -3.4e38))          where(isnan(p), 0, p)
//                                       ─▶  … where(mask, 0, -inf) …
//
// Exporters write the lowest finite number for what torch's operator leaves out, and set rows that became NaN to 0. So
// they mean -inf: a row of which nothing is attended is 0 in torch. With the finite number it would be the mean of all
// values, and depend on how many there are. Without the guard the number is the model's own, and stays.
#include "passes/raise_matchers.h"
#include "passes/raise_patterns.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace maestro {
namespace {

/// The lowest numbers of f32 and bf16 are below; a model's own masks (-1e4, -1e9) are above.
constexpr double kLowest = -1e38;

struct RaiseMask : OpRewritePattern<nn::WhereOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::WhereOp guard, PatternRewriter &rewriter) const override {
    auto isNaN = guard.getCondition().getDefiningOp<nn::IsNaNOp>();
    if (!isNaN || isNaN.getX() != guard.getOnFalse() || !raise::isUniform(guard.getOnTrue(), 0.0))
      return failure();
    auto softmax = raise::throughWidening(guard.getOnFalse()).getDefiningOp<nn::SoftmaxOp>();
    auto sum = softmax ? raise::throughWidening(softmax.getX()).getDefiningOp<nn::AddOp>() : nullptr;
    if (!sum)
      return failure();
    for (OpOperand &operand : sum->getOpOperands()) {
      auto mask = raise::throughWidening(operand.get()).getDefiningOp<nn::WhereOp>();
      std::optional<double> left = mask ? nn::constantValue(mask.getOnFalse()) : std::nullopt;
      if (!left || !(*left < kLowest) || !std::isfinite(*left) || !raise::isUniform(mask.getOnTrue(), 0.0))
        continue;
      // A mask of its own: who else reads the old one may mean its number.
      rewriter.setInsertionPoint(sum);
      auto scalar = nn::TensorType::get(mask.getContext(), {}, raise::elementOf(mask));
      Value infinite = nn::FillOp::create(rewriter, mask.getLoc(), scalar,
                                          rewriter.getF64FloatAttr(-std::numeric_limits<double>::infinity()));
      infinite = nn::BroadcastToOp::create(rewriter, mask.getLoc(), mask.getOnFalse().getType(), infinite);
      Value exact = nn::WhereOp::create(rewriter, mask.getLoc(), mask.getCondition(), mask.getOnTrue(), infinite);
      if (exact.getType() != operand.get().getType())
        exact = nn::CastOp::create(rewriter, mask.getLoc(), operand.get().getType(), exact);
      rewriter.modifyOpInPlace(sum, [&] { operand.set(exact); });
      return success();
    }
    return failure();
  }
};

} // namespace

void addRaiseMaskPatterns(RewritePatternSet &patterns) { patterns.add<RaiseMask>(patterns.getContext()); }

} // namespace maestro
