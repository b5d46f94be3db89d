// Activation functions out of their formulas.
//
//   x · sigmoid(x)                                    ─▶ nn.silu
//   ½x · (1 + erf(x/√2)), factors in any order        ─▶ nn.gelu
//   ½x · (1 + tanh(√(2/π)·(x + 0.044715·x³)))         ─▶ nn.gelu {approximate = "tanh"}
#include "passes/raise_matchers.h"
#include "passes/raise_patterns.h"

#include <cmath>

using namespace mlir;

namespace maestro {
namespace {

struct RaiseSilu : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    auto operands = raise::inEitherOrder(op, [](Value x, Value gate) {
      auto sigmoid = gate.getDefiningOp<nn::SigmoidOp>();
      return sigmoid && sigmoid.getX() == x;
    });
    if (!operands)
      return failure();
    rewriter.replaceOpWithNewOp<nn::SiluOp>(op, op.getType(), operands->first);
    return success();
  }
};

/// Factors of a product of up to three multiplications, constants multiplied into `scale`.
void collectFactors(Value value, double &scale, llvm::SmallVectorImpl<Value> &factors, int depth) {
  if (auto constant = nn::constantValue(value)) {
    scale *= *constant;
    return;
  }
  if (auto product = value.getDefiningOp<nn::MulOp>(); product && depth > 0) {
    collectFactors(product.getLhs(), scale, factors, depth - 1);
    collectFactors(product.getRhs(), scale, factors, depth - 1);
    return;
  }
  if (auto quotient = value.getDefiningOp<nn::DivOp>(); quotient && depth > 0)
    if (auto divisor = nn::constantValue(quotient.getRhs()); divisor && *divisor != 0) {
      scale /= *divisor;
      collectFactors(quotient.getLhs(), scale, factors, depth - 1);
      return;
    }
  factors.push_back(value);
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * std::max(1.0, std::abs(b)); }

/// Whether `value` is x³.
bool isCube(Value value, Value x) {
  if (auto power = value.getDefiningOp<nn::PowOp>())
    return power.getLhs() == x && raise::isUniform(power.getRhs(), 3.0);
  double scale = 1;
  llvm::SmallVector<Value> factors;
  collectFactors(value, scale, factors, 2);
  return near(scale, 1) && factors.size() == 3 && llvm::all_of(factors, [&](Value f) { return f == x; });
}

/// Whether `value` is √(2/π)·(x + 0.044715·x³).
bool isTanhArgument(Value value, Value x) {
  double scale = 1;
  llvm::SmallVector<Value> factors;
  collectFactors(value, scale, factors, 1);
  if (factors.size() != 1 || !near(scale, std::sqrt(2.0 / M_PI)))
    return false;
  auto sum = factors[0].getDefiningOp<nn::AddOp>();
  return sum && raise::inEitherOrder(sum, [&](Value linear, Value cubic) {
           auto scaled = raise::withConstant<nn::MulOp>(cubic);
           return linear == x && scaled && near(scaled->constant, 0.044715) && isCube(scaled->other, x);
         });
}

bool isErfArgument(Value value, Value x) {
  raise::WithConstant scaled = raise::scaledValue(value);
  return scaled.other == x && near(scaled.constant, std::sqrt(0.5));
}

struct RaiseGelu : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    double scale = 1;
    llvm::SmallVector<Value> factors;
    collectFactors(op, scale, factors, 3);
    if (factors.size() != 2 || !near(scale, 0.5))
      return failure();
    for (unsigned i = 0; i < 2; ++i) {
      Value x = factors[i];
      auto onePlus = raise::withConstant<nn::AddOp>(factors[1 - i]);
      if (!onePlus || !near(onePlus->constant, 1.0) || x.getType() != op.getType())
        continue;
      auto erf = onePlus->other.getDefiningOp<nn::ErfOp>();
      auto tanh = onePlus->other.getDefiningOp<nn::TanhOp>();
      bool isExact = erf && isErfArgument(erf.getX(), x), isTanh = tanh && isTanhArgument(tanh.getX(), x);
      if (!isExact && !isTanh)
        continue;
      rewriter.replaceOpWithNewOp<nn::GeluOp>(op, op.getType(), x, rewriter.getStringAttr(isExact ? "none" : "tanh"));
      return success();
    }
    return failure();
  }
};

} // namespace

void addRaiseActivationPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseSilu, RaiseGelu>(patterns.getContext());
}

} // namespace maestro
