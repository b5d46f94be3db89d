// Products with the transposes and biases around them.
//
//   %t = nn.transpose %w {permutation = array<i64: 1, 0>}            nn.matmul %x, %w, %b {transpose_b = true}
//   %y = nn.matmul %x, %t                                    ─▶
//   %z = nn.add %y, %b
//
// A weight's gradient then comes out in the weight's own layout, and no transposed copy exists.
#include "passes/attributes.h"
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
    rewriter.replaceOpWithNewOp<nn::MatmulOp>(op, op.getType(), a ? a : op.getA(), b ? b : op.getB(), op.getBias(),
                                              op.getTransposeA() != static_cast<bool>(a),
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
                                              matmul.getTransposeA(), matmul.getTransposeB(), matmul.getF32Result());
    return success();
  }
};

/// Whether some symbol of `dim` counts rows of the batch (nn.dims says which do).
bool countsRows(const DimExpr &dim, Operation *op) {
  auto dims = op->getParentOfType<ModuleOp>()->getAttrOfType<DictionaryAttr>(attributes::kDims);
  return dims && llvm::any_of(dim.symbols(), [&](const std::string &symbol) {
           auto entry = dims.getAs<DictionaryAttr>(symbol);
           auto combine = entry ? entry.getAs<StringAttr>("combine") : StringAttr();
           return combine && combine.getValue() == "sum";
         });
}

/// Sequence-major models flatten [seq, batch, …] to [seq*batch, k] around a product with a weight, which interleaves
/// the rows of different samples. The product is the same before flattening:
///   matmul(reshape(x -> [seq*batch, k]), w) = reshape(matmul(reshape(x -> [seq, batch, k]), w) -> [seq*batch, n])
/// x may hold more beside the batch, such as the heads of an attention: [seq, batch*heads, depth].
struct KeepRowsApart : OpRewritePattern<nn::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MatmulOp op, PatternRewriter &rewriter) const override {
    auto flatten = op.getA().getDefiningOp<nn::ReshapeOp>();
    if (!flatten || op.getTransposeA() || raise::rankOf(op.getA()) != 2 || raise::rankOf(op.getB()) != 2 ||
        raise::rankOf(flatten.getX()) < 3)
      return failure();
    llvm::ArrayRef<DimExpr> from = raise::shapeOf(flatten.getX()), to = raise::shapeOf(flatten);
    std::optional<DimExpr> rows = to[0].exactQuotient(from[0]);
    if (!rows || countsRows(from[0], op) || !countsRows(*rows, op))
      return failure();
    MLIRContext *context = op.getContext();
    auto apart = [&](Value like, const DimExpr &last) {
      return nn::TensorType::get(context, {from[0], *rows, last}, raise::elementOf(like));
    };
    Value apartRows = nn::ReshapeOp::create(rewriter, op.getLoc(), apart(op.getA(), to[1]), flatten.getX());
    Value product = nn::MatmulOp::create(rewriter, op.getLoc(), apart(op, raise::shapeOf(op)[1]), apartRows, op.getB(),
                                         op.getBias(), false, op.getTransposeB(), op.getF32Result());
    rewriter.replaceOpWithNewOp<nn::ReshapeOp>(op, op.getType(), product);
    return success();
  }
};

} // namespace

void addRaiseProductPatterns(RewritePatternSet &patterns) {
  patterns.add<AbsorbTransposes, AbsorbBias, KeepRowsApart>(patterns.getContext());
}

} // namespace maestro
