// --maestro-fold-broadcasts: elementwise operators broadcast by themselves.
//
//   %b = nn.broadcast_to %mask : (!nn.tensor<[seq], f32>) -> !nn.tensor<[batch, seq], f32>
//   %y = nn.mul %x, %b : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[batch, seq], f32>) -> …
//
// becomes
//
//   %y = nn.mul %x, %mask : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[seq], f32>) -> …
//
// wherever the other operands alone give the result its shape. Exporters write the left form, and
// so do the gradients of sums; the right one neither writes nor reads the large tensor.
#include "ir/nn/nn.h"
#include "passes/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace maestro {
namespace {

/// The shape that the operands broadcast to when operand `index` is `replacement`.
std::optional<llvm::SmallVector<DimExpr>> shapeWith(Operation *op, unsigned index,
                                                    Value replacement) {
  std::optional<llvm::SmallVector<DimExpr>> shape = llvm::SmallVector<DimExpr>();
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (shape)
      shape =
          nn::broadcastShapes(*shape, nn::typeOf(i == index ? replacement : operand).getShape());
  return shape;
}

void foldOperand(Operation *op, unsigned index) {
  while (auto broadcast = op->getOperand(index).getDefiningOp<nn::BroadcastToOp>()) {
    auto shape = shapeWith(op, index, broadcast.getX());
    if (!shape || llvm::ArrayRef<DimExpr>(*shape) != nn::typeOf(op->getResult(0)).getShape())
      return;
    op->setOperand(index, broadcast.getX());
    if (broadcast.use_empty())
      broadcast.erase();
  }
}

struct FoldBroadcastsPass : PassWrapper<FoldBroadcastsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FoldBroadcastsPass)
  StringRef getArgument() const override { return "maestro-fold-broadcasts"; }
  StringRef getDescription() const override {
    return "Elementwise operators broadcast by themselves";
  }

  void runOnOperation() override {
    getOperation().walk([](Operation *op) {
      if (op->hasTrait<nn::Elementwise>())
        for (unsigned i = 0; i < op->getNumOperands(); ++i)
          foldOperand(op, i);
    });
  }
};

} // namespace

std::unique_ptr<Pass> createFoldBroadcastsPass() { return std::make_unique<FoldBroadcastsPass>(); }

} // namespace maestro
