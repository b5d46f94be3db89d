// How tensors lie over the devices of one mesh axis: states that follow from the operators' factor rules alone
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
// One propagation for all axes: an axis says what arguments are, its seeds, and what it adds to the rules. Gradient
// operators have rules, too, so forward and backward are one case. Who asks decides what happens where operands do not
// fit an operator:
//
//   axis "data"     --maestro-check-samples   it is refused: a loss would not be a sum over samples
//                   --maestro-shard           what follows is unknown; else gradients say whether they are partial
//   axis "tensor"   --maestro-shard           a collective converts the operand
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
  bool isSplit() const { return kind == Split; }
  bool isPartial() const { return kind == Partial; }
  bool operator==(const ShardState &) const = default;
  /// "replicated", "split(1)", "partial"
  std::string str() const;
};

/// Why an operator cannot take its operands in their states.
enum class Misfit : uint8_t {
  None,
  Mixed,       ///< Operands are split along different factors, or along one that a result lacks and does not sum.
  Whole,       ///< The factor along which they are split must stay whole.
  Interleaved, ///< A tensor has the factor inside a dim: its parts would not be contiguous.
  Sum,         ///< A partial operand is read by what is not linear in it.
};

/// What an operator needs of its operands, and what its results then are.
struct ShardedOperator {
  llvm::SmallVector<ShardState> operands, results;
  Misfit misfit = Misfit::None; ///< Why an operand is to be replicated first. To be cut is no misfit.
};

/// The cheapest of what the operator's rule allows for operands that are in `states`: they stay as they are where they
/// fit each other, replicated ones are cut where a split factor asks for it, and all else is replicated first. Never
/// fails: an operator on replicated operands is always right.
ShardedOperator shardOperator(mlir::Operation *op, llvm::ArrayRef<ShardState> states);

/// A mesh axis, as the propagation asks it.
class Axis {
public:
  virtual ~Axis() = default;
  virtual ShardState seed(mlir::BlockArgument argument) const = 0;
  /// What an operator makes of operands in `states`: shardOperator(), but for what only this axis knows.
  virtual ShardedOperator visit(mlir::Operation *op, llvm::ArrayRef<ShardState> states) const = 0;
};

/// The states of a block's values along an axis.
class AxisStates {
public:
  AxisStates(mlir::Block &block, const Axis &axis);

  ShardState of(mlir::Value value) const { return states.lookup(value); }
  const ShardedOperator &at(mlir::Operation *op) const { return operators.find(op)->second; }
  /// Where nothing is converted: the operator with a misfit behind which the state is unknown, or null. Split values
  /// are known whatever came before.
  mlir::Operation *unknownSince(mlir::Value value) const { return unknown.lookup(value); }

private:
  llvm::DenseMap<mlir::Value, ShardState> states;
  llvm::DenseMap<mlir::Operation *, ShardedOperator> operators;
  llvm::DenseMap<mlir::Value, mlir::Operation *> unknown;
};

/// The axis "data": each replica, or micro-batch, computes other rows. Whatever has a dim of rows is split there by
/// nature, a number of rows is a sum over replicas, and nothing can be converted.
class DataAxis : public Axis {
public:
  explicit DataAxis(const DimTable &dims) : dims(dims) {}

  ShardState seed(mlir::BlockArgument argument) const override;
  ShardedOperator visit(mlir::Operation *op, llvm::ArrayRef<ShardState> states) const override;

private:
  std::optional<unsigned> rowsOf(mlir::Value value) const;

  const DimTable &dims;
};

} // namespace maestro
