// --maestro-fuse-additions: a product adds what would be added to it.
//
//   %p = nn.matmul %h, %w : (…bf16, …bf16) -> !nn.tensor<[batch, 8], bf16>
//   %c = nn.cast %p : (!nn.tensor<[batch, 8], bf16>) -> !nn.tensor<[batch, 8], f32>
//   %y = nn.add %x, %c : (!nn.tensor<[batch, 8], f32>, …) -> !nn.tensor<[batch, 8], f32>
//
// becomes
//
//   %y = nn.matmul_add %h, %w, %x : (…bf16, …bf16, !nn.tensor<[batch, 8], f32>) -> !nn.tensor<[batch, 8], f32>
//
// in programs, where nothing else reads the product: residual streams, and gradients that several products add to. The
// result is rounded once instead of twice. Sums that leave as gradients of parameters stay, since emission takes them
// apart: their products add to the gradient's memory.
#include "passes/graph_functions.h"
#include "passes/passes.h"

#include "ir/nn/nn.h"

using namespace mlir;

namespace maestro {
namespace {

/// The product that `value` is but for a widening conversion and reshapes, each read once; null for anything else.
nn::MatmulOp productBehind(Value value) {
  for (Value at = value; at.hasOneUse();) {
    Operation *op = at.getDefiningOp();
    if (auto product = dyn_cast_or_null<nn::MatmulOp>(op))
      return product;
    auto cast = dyn_cast_or_null<nn::CastOp>(op);
    bool widens = cast && nn::typeOf(cast.getX()).getElementType().isBF16() && nn::typeOf(at).getElementType().isF32();
    if (!widens && !isa_and_nonnull<nn::ReshapeOp>(op))
      return nullptr;
    at = op->getOperand(0);
  }
  return nullptr;
}

/// Whether the sum is what a program returns as a parameter's gradient, or a part of that.
bool isParameterGradient(Value sum) {
  return llvm::any_of(sum.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<nn::ReshapeOp, nn::AddOp>(user))
      return isParameterGradient(user->getResult(0));
    auto function = dyn_cast<func::FuncOp>(user->getParentOp());
    return isa<func::ReturnOp>(user) && function.getResultAttr(use.getOperandNumber(), attributes::kGradient);
  });
}

/// Of two products the later one: the other is there by then.
nn::MatmulOp productToEnd(nn::AddOp sum) {
  if (sum.getLhs().getType() != sum.getType() || sum.getRhs().getType() != sum.getType() ||
      sum.getLhs() == sum.getRhs())
    return nullptr;
  nn::MatmulOp left = productBehind(sum.getLhs()), right = productBehind(sum.getRhs());
  if (!left || !right)
    return left ? left : right;
  return left->isBeforeInBlock(right) ? right : left;
}

void fuse(nn::AddOp sum, nn::MatmulOp product) {
  OpBuilder builder(sum);
  bool isLeft = productBehind(sum.getLhs()) == product;
  Value addend = isLeft ? sum.getRhs() : sum.getLhs();
  auto type = nn::TensorType::get(builder.getContext(), nn::typeOf(product).getShape(),
                                  nn::typeOf(sum.getResult()).getElementType());
  if (addend.getType() != type)
    addend = nn::ReshapeOp::create(builder, sum.getLoc(), type, addend);
  Value result = nn::MatmulAddOp::create(builder, product.getLoc(), product.getA(), product.getB(), addend,
                                         product.getBias(), product.getTransposeA(), product.getTransposeB());
  if (result.getType() != sum.getType())
    result = nn::ReshapeOp::create(builder, sum.getLoc(), sum.getType(), result);
  Value fused = isLeft ? sum.getLhs() : sum.getRhs();
  sum.replaceAllUsesWith(result);
  sum.erase();
  for (Operation *dead = fused.getDefiningOp(); dead;) {
    Operation *next = dead == product ? nullptr : dead->getOperand(0).getDefiningOp();
    dead->erase();
    dead = next;
  }
}

struct FuseAdditionsPass : PassWrapper<FuseAdditionsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FuseAdditionsPass)
  StringRef getArgument() const override { return "maestro-fuse-additions"; }
  StringRef getDescription() const override { return "Products add what would be added to them"; }

  void runOnOperation() override {
    StringRef name = getOperation().getName();
    if (name == attributes::kGraphFunction || name == attributes::kStepFunction)
      return;
    SmallVector<nn::AddOp> sums;
    getOperation().walk([&](nn::AddOp sum) { sums.push_back(sum); });
    for (nn::AddOp sum : sums)
      if (nn::MatmulOp product = productToEnd(sum); product && !isParameterGradient(sum))
        fuse(sum, product);
  }
};

} // namespace

std::unique_ptr<Pass> createFuseAdditionsPass() { return std::make_unique<FuseAdditionsPass>(); }

} // namespace maestro
