// What operators answer by default; see op_answers.h.
#include "ir/nn/nn.h"

namespace maestro::nn {

using mlir::Operation;
using mlir::Value;

//===----------------------------------------------------------------------===//
// What to save for the backward task
//===----------------------------------------------------------------------===//

SaveAlternative makeSaveAlternative(Operation *op, llvm::ArrayRef<unsigned> operands,
                                    llvm::ArrayRef<unsigned> results) {
  SaveAlternative alternative{llvm::SmallVector<unsigned>(operands), llvm::SmallVector<unsigned>(results), 0};
  llvm::SmallPtrSet<Value, 4> counted;
  auto count = [&](Value value) {
    if (counted.insert(value).second)
      alternative.bytes = alternative.bytes + typeOf(value).getByteSize();
  };
  for (unsigned index : operands)
    count(op->getOperand(index));
  for (unsigned index : results)
    count(op->getResult(index));
  return alternative;
}

/// Builds the gradient of `op` into `block`, as if every floating point operand wanted one. Only the first
/// result passes gradients: the others (statistics, indices) are for the gradient itself.
static llvm::LogicalResult buildAside(DifferentiableOpInterface op, mlir::Block &block) {
  mlir::OpBuilder builder(op.getContext()); // The block has no parent to ask.
  builder.setInsertionPointToEnd(&block);
  llvm::SmallVector<Value> resultGradients, operandGradients;
  for (Value result : op->getResults())
    resultGradients.push_back(result == op->getResult(0) && typeOf(result).isFloat()
                                  ? block.addArgument(result.getType(), op.getLoc())
                                  : Value());
  llvm::SmallVector<bool> needed;
  for (Value operand : op->getOperands())
    needed.push_back(typeOf(operand).isFloat());
  return op.buildGradient(builder, resultGradients, needed, operandGradients);
}

/// Whether an operation in `block` refers to `value`.
static bool isUsedIn(const mlir::Block &block, Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) { return user->getBlock() == &block; });
}

llvm::SmallVector<SaveAlternative> defaultSaveAlternatives(Operation *op) {
  mlir::Block aside;
  mlir::ScopedDiagnosticHandler silent(op->getContext(), [](mlir::Diagnostic &) { return mlir::success(); });
  if (mlir::failed(buildAside(mlir::cast<DifferentiableOpInterface>(op), aside)))
    return {};
  llvm::SmallVector<unsigned> operands, results;
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    if (isUsedIn(aside, operand))
      operands.push_back(index);
  for (auto [index, result] : llvm::enumerate(op->getResults()))
    if (isUsedIn(aside, result))
      results.push_back(index);
  return {makeSaveAlternative(op, operands, results)};
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

static bool isView(Operation *op) { return mlir::cast<KernelOpInterface>(op).getKernelName().empty(); }

DimExpr defaultFlops(Operation *op) {
  return op->hasTrait<Elementwise>() ? typeOf(op->getResult(0)).getNumElements() : DimExpr(0);
}

DimExpr defaultBytes(Operation *op) {
  DimExpr bytes = 0;
  if (isView(op))
    return bytes;
  for (Value operand : op->getOperands())
    bytes = bytes + typeOf(operand).getByteSize();
  // A gradient of a gather adds to as many bytes as it has, wherever they lie in the table.
  if (auto gather = mlir::dyn_cast<GatherGradOp>(op))
    return bytes + typeOf(gather.getDy()).getByteSize();
  for (Value result : op->getResults())
    bytes = bytes + typeOf(result).getByteSize();
  return bytes;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

bool defaultCanReuse(Operation *op, unsigned operand, unsigned result) {
  return op->hasTrait<Elementwise>() && op->getOperand(operand).getType() == op->getResult(result).getType();
}

} // namespace maestro::nn
