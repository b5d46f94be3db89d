// Products with the transposes and biases around them.
//
//   %t = nn.transpose %w {permutation = array<i64: 1, 0>}            nn.matmul %x, %w, %b {transpose_b = true}
//   %y = nn.matmul %x, %t                                    ─▶
//   %z = nn.add %y, %b
//
// A weight's gradient then comes out in the weight's own layout, and no transposed copy exists.
#include "passes/raise_matchers.h"
#include "passes/raise_patterns.h"

using namespace mlir;

namespace maestro {
namespace {

/// The operand under a transpose of the last two dims alone.
Value underLastTwoSwapped(Value value) {
  auto transpose = value.getDefiningOp<nn::TransposeOp>();
  if (!transpose)
    return nullptr;
  llvm::ArrayRef<int64_t> permutation = transpose.getPermutation();
  int64_t rank = permutation.size();
  if (rank < 2)
    return nullptr;
  for (int64_t i = 0; i < rank - 2; ++i)
    if (permutation[i] != i)
      return nullptr;
  bool swapped = permutation[rank - 2] == rank - 1 && permutation[rank - 1] == rank - 2;
  return swapped ? transpose.getX() : nullptr;
}

struct AbsorbTransposes : OpRewritePattern<nn::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MatmulOp op, PatternRewriter &rewriter) const override {
    Value a = underLastTwoSwapped(op.getA()), b = underLastTwoSwapped(op.getB());
    if (!a && !b)
      return failure();
    rewriter.replaceOpWithNewOp<nn::MatmulOp>(op, op.getType(), a ? a : op.getA(), b ? b : op.getB(),
                                              op.getBias(), op.getTransposeA() != static_cast<bool>(a),
                                              op.getTransposeB() != static_cast<bool>(b), op.getF32Result());
    return success();
  }
};

struct AbsorbBias : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::AddOp op, PatternRewriter &rewriter) const override {
    auto operands = raise::inEitherOrder(op, [&](Value product, Value bias) {
      auto matmul = product.getDefiningOp<nn::MatmulOp>();
      return matmul && !matmul.getBias() && matmul->hasOneUse() && product.getType() == op.getType() &&
             raise::rankOf(bias) == 1 && raise::shapeOf(bias)[0] == raise::shapeOf(product).back() &&
             raise::elementOf(bias) == raise::elementOf(product);
    });
    if (!operands)
      return failure();
    auto matmul = operands->first.getDefiningOp<nn::MatmulOp>();
    // The bias may be defined after the product.
    rewriter.replaceOpWithNewOp<nn::MatmulOp>(op, op.getType(), matmul.getA(), matmul.getB(), operands->second,
                                              matmul.getTransposeA(), matmul.getTransposeB(),
                                              matmul.getF32Result());
    return success();
  }
};

} // namespace

void addRaiseProductPatterns(RewritePatternSet &patterns) {
  patterns.add<AbsorbTransposes, AbsorbBias>(patterns.getContext());
}

} // namespace maestro
