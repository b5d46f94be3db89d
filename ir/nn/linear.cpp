// In which operands operators are linear: where a sum over devices, or over samples, may pass.
#include "ir/nn/nn.h"

namespace maestro::nn {

using mlir::isa;

/// Whether a conversion keeps sums (but for rounding): all do that neither cut fractions off nor ask whether x ≠ 0.
static bool keepsSums(CastOp op) {
  mlir::Type from = typeOf(op.getX()).getElementType(), to = typeOf(op.getY()).getElementType();
  return from == to || isa<mlir::FloatType>(to) || (!isa<mlir::FloatType>(from) && !to.isInteger(1));
}

/// Linear in all operands together: x + y, and what only moves elements.
static bool isJointlyLinear(mlir::Operation *op) {
  if (auto cast = mlir::dyn_cast<CastOp>(op))
    return keepsSums(cast);
  return isa<AddOp, SubOp, NegOp, ReshapeOp, TransposeOp, BroadcastToOp, ConcatOp, ReduceSumOp, SliceOp, SliceGradOp,
             CumsumOp, AllReduceOp, AllGatherOp, OwnPartOp>(op);
}

/// Linear in each of the first two operands alone: products.
static bool isBilinear(mlir::Operation *op) {
  if (auto product = mlir::dyn_cast<MatmulOp>(op))
    return !product.getBias();
  if (auto product = mlir::dyn_cast<ConvOp>(op))
    return !product.getBias();
  return isa<MulOp, ConvGradInputOp, ConvGradWeightOp>(op);
}

/// The one operand in which the operator is linear: a dividend, what is gathered, a gradient's `dy`.
static std::optional<unsigned> linearOperand(mlir::Operation *op) {
  if (isa<DivOp>(op) && !isa<mlir::FloatType>(typeOf(op->getResult(0)).getElementType()))
    return std::nullopt; // Integers truncate.
  if (isa<DivOp, GatherOp, GatherNDOp, GatherElementsOp, RopeOp, DropoutOp, LayerNormGradOp, RmsNormGradOp,
          AttentionGradOp>(op))
    return 0;
  if (isa<GatherGradOp, GatherNDGradOp, MaskedScatterGradOp, TanhGradOp, SigmoidGradOp, ReluGradOp, SiluGradOp,
          GeluGradOp, SoftmaxGradOp, LogSoftmaxGradOp>(op))
    return 1;
  return std::nullopt;
}

bool defaultIsLinearIn(mlir::Operation *op, llvm::ArrayRef<bool> operands) {
  size_t marked = llvm::count(operands, true);
  if (isJointlyLinear(op))
    return marked == operands.size();
  if (marked != 1)
    return false;
  if (isBilinear(op))
    return true;
  std::optional<unsigned> only = linearOperand(op);
  return only && operands[*only];
}

} // namespace maestro::nn
