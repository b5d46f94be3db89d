// Where a sum over devices, or over samples, may pass: in which operands operators are linear.
#include "ir/nn/nn.h"

namespace maestro::nn {

using mlir::isa;

/// Whether a conversion keeps sums (but for rounding): all do that neither cut fractions off nor ask whether x ≠ 0.
static bool keepsSums(CastOp op) {
  mlir::Type from = typeOf(op.getX()).getElementType(), to = typeOf(op.getY()).getElementType();
  return from == to || isa<mlir::FloatType>(to) || (!isa<mlir::FloatType>(from) && !to.isInteger(1));
}

/// Where an operator is not as linear as its trait says: a bias is added once, and integers truncate.
static bool isException(mlir::Operation *op) {
  if (auto cast = mlir::dyn_cast<CastOp>(op))
    return !keepsSums(cast);
  if (auto product = mlir::dyn_cast<MatmulOp>(op))
    return bool(product.getBias());
  if (auto product = mlir::dyn_cast<ConvOp>(op))
    return bool(product.getBias());
  return isa<DivOp>(op) && !typeOf(op->getResult(0)).isFloat();
}

/// Whether a sum over devices may pass where the marked operands of `among` are partial and what else stands there is
/// 0.
static bool sumsWithZeros(mlir::OperandRange all, llvm::ArrayRef<bool> marked, llvm::ArrayRef<unsigned> among) {
  bool any = false;
  for (auto [i, operand] : llvm::enumerate(all)) {
    bool isTerm = llvm::is_contained(among, i);
    if (marked[i] ? !isTerm : isTerm && constantValue(operand) != 0.0)
      return false;
    any |= marked[i];
  }
  return any;
}

bool WhereOp::isLinearIn(llvm::ArrayRef<bool> operands) { return sumsWithZeros(getOperands(), operands, {1, 2}); }

bool PadOp::isLinearIn(llvm::ArrayRef<bool>) { return getMode() == "constant" && getValue().isZero(); }

bool ScatterElementsOp::isLinearIn(llvm::ArrayRef<bool> operands) {
  return (getReduction() == "none" || getReduction() == "add") && sumsWithZeros(getOperands(), operands, {0, 2});
}

bool ScatterNDOp::isLinearIn(llvm::ArrayRef<bool> operands) {
  return (getReduction() == "none" || getReduction() == "add") && sumsWithZeros(getOperands(), operands, {0, 2});
}

bool defaultIsLinearIn(mlir::Operation *op, llvm::ArrayRef<bool> operands) {
  if (isException(op))
    return false;
  size_t marked = llvm::count(operands, true);
  if (op->hasTrait<Linear>())
    return marked == operands.size();
  if (marked != 1)
    return false;
  return op->hasTrait<Bilinear>() || (op->hasTrait<LinearInFirst>() && operands[0]) ||
         (op->hasTrait<LinearInSecond>() && operands[1]);
}

} // namespace maestro::nn
