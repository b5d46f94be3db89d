// How padded dims pass through one operator; private to passes/padding*.cpp.
#pragma once

#include "passes/padding.h"

namespace maestro::padding {

/// One operator: what is known of its operands becomes what is known of its results. A dim whose size contains the
/// symbol and that has no axis is uniform: its elements are the same at all positions.
class Transfer {
public:
  Transfer(mlir::Operation *op, const llvm::DenseMap<mlir::Value, Tensor> &known, llvm::StringRef symbol);

  llvm::SmallVector<Tensor> run();

private:
  // padding_transfer.cpp
  void dispatch();
  void byRule();
  void elementwise();
  void comparePositions(llvm::ArrayRef<llvm::SmallVector<int>> targets);
  void addPositions(llvm::ArrayRef<llvm::SmallVector<int>> targets);
  void moved();
  void iota(nn::IotaOp op);
  void dimValues(nn::DimValuesOp op);
  void constant(std::optional<double> value);

  // padding_movement.cpp: parts of dims.
  void slice(nn::SliceOp op);
  void sliceDim(nn::SliceOp op, unsigned dim, const Axis &axis);
  void pad(nn::PadOp op);
  void concat(nn::ConcatOp op);
  void gather(unsigned axis);
  void gatherND(nn::GatherNDOp op);
  void takePositions(const Axis &from, Axis &to);
  void scatterND(nn::ScatterNDOp op);
  void maskedScatter(nn::MaskedScatterOp op);

  // padding_reductions.cpp: what looks at all positions, or at neighbouring ones.
  void reduce(llvm::ArrayRef<int64_t> axes);
  void softmax(unsigned dim, bool isLog);
  void cumsum(nn::CumsumOp op);
  void argLargest(unsigned dim, bool largest, bool selectsLast);
  void matmul(nn::MatmulOp op);
  void attention(nn::AttentionOp op);
  void recurrence(nn::RecurrenceOp op);
  void crossEntropy(nn::CrossEntropyOp op);
  void window(llvm::ArrayRef<int64_t> kernel, llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> pads,
              llvm::ArrayRef<int64_t> dilations, std::optional<double> neutral);
  void transposedConv(nn::ConvGradInputOp op);

  bool mentions(const DimExpr &expr) const;
  llvm::ArrayRef<DimExpr> shapeOf(unsigned operand) const { return nn::typeOf(op->getOperand(operand)).getShape(); }
  const Tensor &operand(unsigned i) const { return known.at(op->getOperand(i)); }
  /// Padding shows here; every result says so. `what` follows the operator's name.
  void show(const llvm::Twine &what);
  /// Whether all positions are right; padding shows where they are not.
  bool requireRight(const Axis &axis);
  /// Whether `scores`, masked behind the end, may be masked before it as well, and by a number: such a row is the mean
  /// of all that it looks at, padding included. A field says what is masked; positions leave each one itself.
  bool mayMaskAll(mlir::Value scores) const;
  bool isVisible() const { return results.front().visible.has_value(); }

  /// The axis of an operand's dim, made up where it is uniform; nothing where the dim does not run along the symbol.
  /// Padding shows where the dim is a product of which only a part does.
  std::optional<Axis> axisOf(unsigned operand, unsigned dim);
  /// Carries the operand's axes to the results that have their factors, tails unknown. targets[axis] is the axis of
  /// result 0, or -1.
  llvm::SmallVector<int> carry(unsigned operand, llvm::function_ref<bool(unsigned dim)> ignores = nullptr);
  /// Where the axis lies in the rule.
  struct Place;
  std::optional<Place> placeOf(const nn::DimFactors &dim, const Axis &axis) const;
  /// The operand's range behind the end of the results' axis, into which its axis `own` went (-1: none).
  Range behind(unsigned operand, int own, const Axis &result) const;

  mlir::Operation *op;
  const llvm::DenseMap<mlir::Value, Tensor> &known;
  llvm::StringRef symbol;
  nn::FactorRule rule;
  llvm::SmallVector<Tensor> results;
};

/// Whether all positions are right.
bool isFull(const Axis &axis);
/// The smaller one; as an expression where that is unknown.
DimExpr smaller(const DimExpr &a, const DimExpr &b);

} // namespace maestro::padding
