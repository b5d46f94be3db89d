// Gated linear units: the activation of one product times another.
//
//   %s = nn.silu %gate            (or gelu)
//   %y = nn.mul %s, %up                               ─▶  nn.glu %gate, %up {activation = "silu"}
//
// Neither the activation's result nor its gradient is written: a step keeps the two products alone.
#include "passes/raise_matchers.h"
#include "passes/raise_patterns.h"

using namespace mlir;

namespace maestro {
namespace {

/// The operand of an activation that nothing else reads, and the activation's name.
std::optional<std::pair<Value, llvm::StringRef>> activationOf(Value value) {
  if (!value.hasOneUse())
    return std::nullopt;
  if (auto silu = value.getDefiningOp<nn::SiluOp>())
    return std::pair(silu.getX(), llvm::StringRef("silu"));
  if (auto gelu = value.getDefiningOp<nn::GeluOp>())
    return std::pair(gelu.getX(), llvm::StringRef(gelu.getApproximate() == "tanh" ? "gelu_tanh" : "gelu"));
  return std::nullopt;
}

struct RaiseGlu : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MulOp op, PatternRewriter &rewriter) const override {
    auto operands = raise::inEitherOrder(op, [&](Value activated, Value up) {
      return activated.getType() == up.getType() && activationOf(activated).has_value();
    });
    if (!operands)
      return failure();
    auto [gate, activation] = *activationOf(operands->first);
    rewriter.replaceOpWithNewOp<nn::GluOp>(op, op.getType(), gate, operands->second,
                                           rewriter.getStringAttr(activation));
    return success();
  }
};

} // namespace

void addRaiseGluPatterns(RewritePatternSet &patterns) { patterns.add<RaiseGlu>(patterns.getContext()); }

} // namespace maestro
