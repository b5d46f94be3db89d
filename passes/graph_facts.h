// What the partition asks of @graph's operators: what they are computed from, which parameters they read, what they
// work on, and how much that is at the dims' bounds.
#pragma once

#include "passes/graph_functions.h"
#include "passes/section_atoms.h"

namespace maestro {

/// An undeclared symbol's value when sizes are compared.
inline constexpr int64_t kAssumedBound = 256;

/// Of a graph whose operators stay as they are meanwhile.
class GraphFacts {
public:
  GraphFacts(mlir::func::FuncOp graph, const DimTable &dims);

  auto operations() { return graph.getBody().front().without_terminator(); }
  mlir::OperandRange results() { return graph.getBody().front().getTerminator()->getOperands(); }

  /// Names of components in the order in which the linker inlined them: producers first. At least one.
  llvm::ArrayRef<std::string> components() const { return names; }
  unsigned componentOf(llvm::StringRef parameter) const;

  Origin originOf(mlir::Operation *op) const { return origins.of(op); }
  Origin originOf(mlir::Value value) const { return origins.of(value); }

  /// The parameters that an operator reads, also through what is computed from parameters alone.
  llvm::SmallVector<mlir::BlockArgument> parametersOf(mlir::Operation *op);
  /// Of those, "component/name".
  llvm::SmallVector<llvm::StringRef> parameterNamesOf(mlir::Operation *op);
  /// Of an argument of the graph; empty where it is no parameter.
  llvm::StringRef parameterName(mlir::BlockArgument argument);
  /// The summed symbol of the results, or of the operands where results have none (a sum over samples).
  std::string rowsOf(mlir::Operation *op) const;

  double flopsOf(mlir::Operation *op) const; ///< Bytes moved included.
  double bytesOf(mlir::Value value) const;
  double parameterBytesOf(mlir::Operation *op);
  /// The same as functions; valid as long as this is.
  OperatorWeights weights();

private:
  double atBounds(const DimExpr &expr) const;

  mlir::func::FuncOp graph;
  const DimTable &dims;
  std::vector<std::string> names;
  Origins origins;
};

} // namespace maestro
