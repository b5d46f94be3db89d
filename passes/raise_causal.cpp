// Causality out of the masks of attention.
//
//   mask = j ≤ i + 3 and inSameDocument           nn.attention %q, %k, %v, %mask
//                                       ─▶        nn.attention %q, %k, %v, %inSameDocument {causal, causal_offset = 3}
//
// Exporters compute such masks from positions, element by element. A kernel that knows of it leaves the hidden half
// out; what is true of all positions (documents that are one, as positions count up) is left out, too.
#include "passes/affine_values.h"
#include "passes/raise_matchers.h"
#include "passes/raise_patterns.h"

using namespace mlir;

namespace maestro {
namespace {

/// lhs ⋈ rhs of integers as lhs' − rhs' ≥ 0: what is subtracted from what, and −1 where they may not be equal.
struct Comparison {
  Value greater, less;
  int64_t constant;
};
std::optional<Comparison> comparisonOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<nn::LessEqualOp, nn::LessOp>(op))
    return Comparison{op->getOperand(1), op->getOperand(0), isa<nn::LessOp>(op) ? -1 : 0};
  if (isa_and_nonnull<nn::GreaterEqualOp, nn::GreaterOp>(op))
    return Comparison{op->getOperand(0), op->getOperand(1), isa<nn::GreaterOp>(op) ? -1 : 0};
  return std::nullopt;
}

/// What a mask says, part by part.
struct MaskParts {
  std::optional<int64_t> offset; ///< Of causality: j ≤ i + offset.
  llvm::SmallVector<Value> rest;
  bool leavesOut = false; ///< What is always true.
};

void collect(Value mask, AffineValues &values, MaskParts &parts) {
  if (auto both = mask.getDefiningOp<nn::AndOp>();
      both && raise::rankOf(both.getLhs()) == 4 && raise::rankOf(both.getRhs()) == 4) {
    collect(both.getLhs(), values, parts);
    collect(both.getRhs(), values, parts);
    return;
  }
  if (auto wider = mask.getDefiningOp<nn::BroadcastToOp>(); wider && raise::rankOf(wider.getX()) == 4)
    return collect(wider.getX(), values, parts); // As attention broadcasts itself.
  if (auto known = values.of(mask); known && known->isConstant() && known->constant != 0) {
    parts.leavesOut = true;
    return;
  }
  if (auto comparison = comparisonOf(mask)) {
    auto greater = values.of(comparison->greater), less = values.of(comparison->less);
    if (greater && less) {
      AffineValue d = AffineValues::sum(*greater, *less, -1, raise::shapeOf(mask));
      d.constant += comparison->constant;
      if (d.isConstant() && d.constant >= 0) {
        parts.leavesOut = true;
        return;
      }
      // Not where even the own position is hidden: kernels of attention ask for it.
      if (d.constant >= 0 && llvm::ArrayRef<int64_t>(d.coefficients) == llvm::ArrayRef<int64_t>({0, 0, 1, -1})) {
        parts.offset = std::min(parts.offset.value_or(d.constant), d.constant);
        return;
      }
    }
  }
  parts.rest.push_back(mask);
}

struct RaiseCausal : OpRewritePattern<nn::AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::AttentionOp op, PatternRewriter &rewriter) const override {
    Value mask = op.getMask();
    if (!mask || op.getCausal() || raise::rankOf(mask) != 4 || !raise::elementOf(mask).isInteger(1))
      return failure();
    AffineValues values;
    MaskParts parts;
    collect(mask, values, parts);
    if (!parts.offset && !parts.leavesOut)
      return failure();
    Value rest;
    for (Value part : parts.rest)
      rest = rest ? nn::AndOp::create(rewriter, op.getLoc(), rest, part).getResult() : part;
    auto raised = nn::AttentionOp::create(rewriter, op.getLoc(), op.getQ(), op.getK(), op.getV(), rest, op.getScale(),
                                          op.getSoftcap(), parts.offset.has_value(), parts.offset.value_or(0),
                                          op.getSequenceMajor());
    rewriter.replaceOp(op, raised.getResults());
    return success();
  }
};

} // namespace

void addRaiseCausalPatterns(RewritePatternSet &patterns) { patterns.add<RaiseCausal>(patterns.getContext()); }

} // namespace maestro
