// The answers that `nn` operators give by default to their interfaces (nn_interfaces.td), and the vocabulary of
// those answers.
#pragma once

#include "ir/nn/factor_rule.h"

#include "mlir/IR/Operation.h"

namespace maestro::nn {

/// One way to provide what an operator's gradient uses: keep these until the backward task.
struct SaveAlternative {
  llvm::SmallVector<unsigned> operands; ///< indices of operands
  llvm::SmallVector<unsigned> results;  ///< indices of results
  DimExpr bytes;                        ///< the sum of their sizes, each value counted once
};

/// One alternative: exactly what the operator's gradient refers to when every floating point operand wants
/// one. Found by building the gradient aside.
llvm::SmallVector<SaveAlternative> defaultSaveAlternatives(mlir::Operation *op);

/// An alternative with `bytes` filled in.
SaveAlternative makeSaveAlternative(mlir::Operation *op, llvm::ArrayRef<unsigned> operands,
                                    llvm::ArrayRef<unsigned> results);

/// 1 per element of the first result; 0 for operators without a kernel and those that only move data.
DimExpr defaultFlops(mlir::Operation *op);
/// All operands and results once; 0 for operators without a kernel.
DimExpr defaultBytes(mlir::Operation *op);
/// For elementwise operators: whether the operand has the result's type. No for all others.
bool defaultCanReuse(mlir::Operation *op, unsigned operand, unsigned result);
/// The broadcast rule: one parallel factor per dim of the first result.
FactorRule elementwiseFactorRule(mlir::Operation *op);
/// Whether the results are linear in the marked operands together (linear.cpp).
bool defaultIsLinearIn(mlir::Operation *op, llvm::ArrayRef<bool> operands);

} // namespace maestro::nn
