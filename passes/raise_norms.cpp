// RMS normalisation, as exporters decompose it.
//
//   %s = nn.mul %x, %x (or pow 2)                     %y, %rstd = nn.rms_norm %x, %w {axis, epsilon}
//   %m = nn.reduce_mean %s {axes = last, keepdims}
//   %r = 1 / sqrt(%m + eps)                    ─▶
//   %n = nn.mul %x, %r
//   %y = nn.mul %n, %w
#include "passes/raise_matchers.h"
#include "passes/raise_patterns.h"

using namespace mlir;

namespace maestro {
namespace {

/// v for 1/√v, however written.
Value underReciprocalRoot(Value value) {
  if (auto rsqrt = value.getDefiningOp<nn::RsqrtOp>())
    return rsqrt.getX();
  Value root;
  if (auto reciprocal = value.getDefiningOp<nn::ReciprocalOp>())
    root = reciprocal.getX();
  else if (auto division = value.getDefiningOp<nn::DivOp>(); division && raise::isUniform(division.getLhs(), 1.0))
    root = division.getRhs();
  else if (auto power = value.getDefiningOp<nn::PowOp>(); power && raise::isUniform(power.getRhs(), -0.5))
    return power.getLhs();
  if (!root)
    return nullptr;
  if (auto sqrt = root.getDefiningOp<nn::SqrtOp>())
    return sqrt.getX();
  if (auto power = root.getDefiningOp<nn::PowOp>(); power && raise::isUniform(power.getRhs(), 0.5))
    return power.getLhs();
  return nullptr;
}

/// x for x².
Value underSquare(Value value) {
  if (auto power = value.getDefiningOp<nn::PowOp>(); power && raise::isUniform(power.getRhs(), 2.0))
    return power.getLhs();
  if (auto product = value.getDefiningOp<nn::MulOp>(); product && product.getLhs() == product.getRhs())
    return product.getLhs();
  return nullptr;
}

/// The epsilon when `rstd` is 1/√(mean(x²) + epsilon) over the last dim of x.
std::optional<double> epsilonOfRms(Value rstd, Value x) {
  Value variance = underReciprocalRoot(rstd);
  if (!variance)
    return std::nullopt;
  auto sum = raise::withConstant<nn::AddOp>(variance);
  if (!sum)
    return std::nullopt;
  auto mean = sum->other.getDefiningOp<nn::ReduceMeanOp>();
  bool overLast = mean && mean.getAxes().size() == 1 && mean.getAxes()[0] == raise::rankOf(x) - 1 && mean.getKeepdims();
  if (!overLast || underSquare(mean.getX()) != x)
    return std::nullopt;
  return sum->constant;
}

struct RaiseRmsNorm : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    std::optional<double> epsilon;
    auto operands = raise::inEitherOrder(op, [&](Value x, Value rstd) {
      epsilon = op.getType() == x.getType() ? epsilonOfRms(rstd, x) : std::nullopt;
      return epsilon.has_value();
    });
    // x ÷ √… is the same.
    if (!operands)
      return failure();
    auto norm = nn::RmsNormOp::create(rewriter, op.getLoc(), operands->first, Value(),
                                      raise::rankOf(operands->first) - 1, llvm::APFloat(*epsilon));
    rewriter.replaceOp(op, norm.getY());
    return success();
  }
};

struct AbsorbScale : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    auto operands = raise::inEitherOrder(op, [&](Value normalised, Value scale) {
      auto norm = normalised.getDefiningOp<nn::RmsNormOp>();
      return norm && !norm.getScale() && normalised.hasOneUse() && raise::rankOf(scale) == 1 &&
             raise::shapeOf(scale)[0] == raise::shapeOf(normalised).back() &&
             raise::elementOf(scale) == raise::elementOf(normalised);
    });
    if (!operands)
      return failure();
    auto norm = operands->first.getDefiningOp<nn::RmsNormOp>();
    auto scaled =
        nn::RmsNormOp::create(rewriter, op.getLoc(), norm.getX(), operands->second, norm.getAxis(), norm.getEpsilon());
    rewriter.replaceOp(op, scaled.getY());
    return success();
  }
};

} // namespace

void addRaiseNormPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseRmsNorm, AbsorbScale>(patterns.getContext());
}

} // namespace maestro
