// What type inference and verification share. Private to ir/nn/infer_*.cpp and verify_*.cpp.
#pragma once

#include "ir/nn/nn.h"

#include "llvm/ADT/Twine.h"

/// Opens the definition of an operator's type inference.
#define MAESTRO_INFER(OpTy)                                                                                            \
  llvm::LogicalResult OpTy::inferReturnTypes(mlir::MLIRContext *context, std::optional<mlir::Location> location,       \
                                             Adaptor adaptor, llvm::SmallVectorImpl<mlir::Type> &types)

namespace maestro::nn {

/// One operator being inferred: where errors go, and where result types go.
class Inference {
public:
  Inference(llvm::StringRef op, std::optional<mlir::Location> location, llvm::SmallVectorImpl<mlir::Type> &types)
      : op(op), location(location), types(types) {}

  /// Reports `message` for this operator.
  llvm::LogicalResult fail(const llvm::Twine &message) const;
  /// Adds a result type, unless its rank or a dim is out of bounds.
  llvm::LogicalResult add(llvm::ArrayRef<DimExpr> shape, mlir::Type elementType);
  llvm::LogicalResult add(TensorType type) { return add(type.getShape(), type.getElementType()); }

  llvm::LogicalResult checkAxis(int64_t axis, TensorType type) const;
  llvm::LogicalResult checkFloat(llvm::StringRef what, TensorType type) const;
  llvm::LogicalResult checkBool(llvm::StringRef what, TensorType type) const;
  llvm::LogicalResult checkInteger(llvm::StringRef what, TensorType type) const;
  llvm::LogicalResult checkSameElement(llvm::StringRef what, TensorType a, TensorType b) const;
  llvm::LogicalResult checkShape(llvm::StringRef what, TensorType type, llvm::ArrayRef<DimExpr> expected) const;
  /// Numpy broadcasting must leave `shape` as it is.
  llvm::LogicalResult checkBroadcastsTo(llvm::StringRef what, TensorType type, llvm::ArrayRef<DimExpr> shape) const;
  llvm::LogicalResult checkRank(llvm::StringRef what, TensorType type, int64_t least, int64_t most) const;

private:
  llvm::StringRef op;
  std::optional<mlir::Location> location;
  llvm::SmallVectorImpl<mlir::Type> &types;
};

/// An Inference that only reports: for verifiers.
class Verification : public Inference {
public:
  explicit Verification(mlir::Operation *op) : Inference(op->getName().getStringRef(), op->getLoc(), none) {}

private:
  llvm::SmallVector<mlir::Type, 0> none;
};

/// The type of an operand in an adaptor; null for an absent optional operand.
inline TensorType tensorOf(mlir::Value value) { return value ? mlir::cast<TensorType>(value.getType()) : TensorType(); }

/// Whether `dim` is negative for all sizes.
inline bool isAlwaysNegative(const DimExpr &dim) { return (-dim).lowerBound(true).value_or(0) > 0; }

/// data[:axis] + indices + data[axis+1:]
llvm::SmallVector<DimExpr> gatherShape(TensorType data, TensorType indices, int64_t axis);
/// Fails where indices and data do not fit; fills `shape` of ONNX GatherND.
llvm::LogicalResult gatherNDShape(const Inference &inference, TensorType data, TensorType indices, int64_t batchDims,
                                  llvm::SmallVectorImpl<DimExpr> &shape);

/// A convolution's or pooling's window: one entry per spatial dim; pads has all low ends, then all high ends.
struct Window {
  llvm::SmallVector<DimExpr> kernel;
  llvm::ArrayRef<int64_t> strides, pads, dilations;
  bool ceilMode = false;
};
/// Checks the window against `spatial` and appends the result's spatial dims to `shape`.
llvm::LogicalResult windowShape(const Inference &inference, llvm::ArrayRef<DimExpr> spatial, const Window &window,
                                llvm::SmallVectorImpl<DimExpr> &shape);
/// The shape of conv(x, w).
llvm::LogicalResult convShape(const Inference &inference, TensorType x, TensorType w, const Window &window,
                              int64_t group, llvm::SmallVectorImpl<DimExpr> &shape);
/// The shape of a pooling of x.
llvm::LogicalResult poolShape(const Inference &inference, TensorType x, const Window &window,
                              llvm::SmallVectorImpl<DimExpr> &shape);

/// The window that an operator's attributes state.
template <typename Op> Window windowOf(Op op, llvm::ArrayRef<DimExpr> kernel) {
  return {llvm::SmallVector<DimExpr>(kernel), op.getStrides(), op.getPads(), op.getDilations()};
}
template <typename Op> Window poolWindowOf(Op op) {
  Window window = windowOf(op, llvm::SmallVector<DimExpr>(op.getKernel()));
  window.ceilMode = op.getCeilMode();
  return window;
}

} // namespace maestro::nn
