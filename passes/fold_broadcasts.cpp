// --maestro-fold-broadcasts: elementwise operators broadcast by themselves.
//
//   %b = nn.broadcast_to %mask : (!nn.tensor<[seq], f32>) -> !nn.tensor<[batch, seq], f32>
//   %y = nn.mul %x, %b : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[batch, seq], f32>) -> …
//
// becomes
//
//   %y = nn.mul %x, %mask : (!nn.tensor<[batch, seq], f32>, !nn.tensor<[seq], f32>) -> …
//
// wherever the other operands alone give the result its shape and the operator broadcasts. Exporters write the left
// form, and so do the gradients of sums; the right one neither writes nor reads the large tensor.
#include "ir/nn/nn.h"
#include "passes/passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"

using namespace mlir;

namespace maestro {
namespace {

/// Whether the operator takes `replacement` as operand `index` and gives what it gave. Derivatives want equal shapes; a
/// cast says its type itself and has nothing else to take its shape from.
bool acceptsInstead(Operation *op, unsigned index, Value replacement) {
  auto inference = dyn_cast<InferTypeOpInterface>(op);
  if (!inference)
    return false;
  llvm::SmallVector<Value> operands(op->getOperands());
  operands[index] = replacement;
  llvm::SmallVector<Type> types;
  return succeeded(inference.inferReturnTypes(op->getContext(), std::nullopt, operands, op->getAttrDictionary(),
                                              op->getPropertiesStorage(), op->getRegions(), types)) &&
         llvm::equal(types, op->getResultTypes());
}

void foldOperand(Operation *op, unsigned index) {
  while (auto broadcast = op->getOperand(index).getDefiningOp<nn::BroadcastToOp>()) {
    if (!acceptsInstead(op, index, broadcast.getX()))
      return;
    op->setOperand(index, broadcast.getX());
    if (broadcast.use_empty())
      broadcast.erase();
  }
}

struct FoldBroadcastsPass : PassWrapper<FoldBroadcastsPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FoldBroadcastsPass)
  StringRef getArgument() const override { return "maestro-fold-broadcasts"; }
  StringRef getDescription() const override { return "Elementwise operators broadcast by themselves"; }

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
