// How tensors lie over the devices of one mesh axis, and what an operator makes of it: states from factor rules alone
// (ir/nn/factor_rule.h). Pure: nothing is changed here.
//
//   split(d)     each device has its part of dim d, parts in the devices' order
//   replicated   every device has all of it
//   partial      every device has a summand; the tensor is their sum
//
//   %h = nn.matmul %x, %w      %x replicated, %w split(1)   ─▶ %h split(1)         the factor j is parallel
//   %y = nn.matmul %h, %u      %h split(1), %u split(0)     ─▶ %y partial          the factor k is summed
//   %z = nn.add %x, %y         %x replicated, %y partial    ─▶ %y must be replicated first: an all-reduce
//
// Axes: "data" (rows of samples are split by nature; what becomes partial is added up over replicas) and "tensor"
// (parameters are split on purpose). Gradient operators have rules, too, so forward and backward are one case.
#pragma once

#include "passes/graph_functions.h"

#include <string>

namespace maestro {

struct ShardState {
  enum Kind { Replicated, Split, Partial };
  Kind kind = Replicated;
  unsigned dim = 0; ///< Of Split.

  static ShardState split(unsigned dim) { return {Split, dim}; }
  static ShardState partial() { return {Partial, 0}; }
  bool operator==(const ShardState &) const = default;
  /// "replicated", "split(1)", "partial"
  std::string str() const;
};

/// What an operator needs of its operands, and what its results then are.
struct ShardedOperator {
  llvm::SmallVector<ShardState> operands, results;
};

/// The cheapest of what the operator's rule allows for operands that are in `states`: they stay as they are where they
/// fit each other, replicated ones are cut where a split factor asks for it, and all else is replicated first. Never
/// fails: an operator on replicated operands is always right.
ShardedOperator shardOperator(mlir::Operation *op, llvm::ArrayRef<ShardState> states);

/// The states of a block's values along the axis "data", where each replica computes other rows: what holds rows is
/// split, and the others follow from the operators' rules. Where a rule does not say (partial meets what is no sum),
/// the operator is remembered with its results.
class DataStates {
public:
  DataStates(mlir::func::FuncOp function, const DimTable &dims);

  ShardState of(mlir::Value value) const { return states.lookup(value); }
  /// The operator behind which nothing is known; null where all is.
  mlir::Operation *unknownSince(mlir::Value value) const { return unknown.lookup(value); }

private:
  void visit(mlir::Operation *op);
  std::optional<unsigned> rowsOf(mlir::Value value) const;

  const DimTable &dims;
  llvm::DenseMap<mlir::Value, ShardState> states;
  llvm::DenseMap<mlir::Value, mlir::Operation *> unknown;
};

} // namespace maestro
