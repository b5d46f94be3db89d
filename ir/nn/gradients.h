// What the gradients of `nn` operators are built from: for gradients_*.cpp and
// passes/differentiation.cpp.
//
// Rules that every gradient keeps
// - An operand's gradient has exactly the operand's type. A sum over many positions of 16-bit
// values is
//   formed in f32 and rounded once, by a final cast; whoever adds gradients up looks through that
//   cast (passes/differentiation.cpp), so that a bf16 model's parameter gradients stay f32.
// - Integer and boolean operands get none.
// - The fewer and the smaller the values of the forward pass that a gradient uses, the better: they
//   are what a micro-batch in flight keeps.
#pragma once

#include "ir/nn/nn.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

/// Opens the definition of an operator's gradient.
#define MAESTRO_GRADIENT(OpTy)                                                                                         \
  llvm::LogicalResult OpTy::buildGradient(mlir::OpBuilder &builder, mlir::ValueRange resultGradients,                  \
                                          llvm::ArrayRef<bool> needed,                                                 \
                                          llvm::SmallVectorImpl<mlir::Value> &operandGradients)

namespace maestro::nn {

/// Emits operators at one place, for one location.
class GradientBuilder : public mlir::ImplicitLocOpBuilder {
public:
  GradientBuilder(mlir::Operation *op, mlir::OpBuilder &builder) : GradientBuilder(op->getLoc(), builder) {}
  GradientBuilder(mlir::Location location, mlir::OpBuilder &builder) : mlir::ImplicitLocOpBuilder(location, builder) {}

  /// The first result of a new operator.
  template <typename OpTy, typename... Args> mlir::Value emit(Args &&...args) {
    return OpTy::create(*this, std::forward<Args>(args)...)->getResult(0);
  }

  /// A scalar of `like`'s element type.
  mlir::Value scalar(mlir::Value like, double value);
  /// `value` times a constant.
  mlir::Value scaled(mlir::Value value, double factor);
  /// A tensor of `type` full of zeros.
  mlir::Value zeros(TensorType type);
  /// `value` itself where it already has that element type.
  mlir::Value cast(mlir::Value value, mlir::Type elementType);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<DimExpr> shape);
  /// [d₀, …, dₙ, last] as [d₀·…·dₙ, last].
  mlir::Value flattenedRows(mlir::Value value);
  /// Values of 16 bits in f32, others as they are.
  mlir::Value widened(mlir::Value value);
  /// The sum of `value` over `axes`, which are dropped, formed in f32 at least.
  mlir::Value wideSum(mlir::Value value, llvm::ArrayRef<int64_t> axes);
  /// The gradient of something of type `type` that was broadcast to `value`'s shape: the sum over
  /// the dims that broadcasting added or stretched.
  mlir::Value sumTo(mlir::Value value, TensorType type);
  /// `value` with `axes` of extent 1 put back where a reduction of `full`'s shape dropped them.
  mlir::Value restoreAxes(mlir::Value value, llvm::ArrayRef<DimExpr> full, llvm::ArrayRef<int64_t> axes);
};

inline llvm::ArrayRef<DimExpr> shapeOf(mlir::Value value) { return typeOf(value).getShape(); }
inline int64_t rankOf(mlir::Value value) { return shapeOf(value).size(); }
bool isFloatTensor(mlir::Value value);
/// The gradient of the only result, or null when the first operand `x` wants none.
mlir::Value arriving(mlir::ValueRange resultGradients, llvm::ArrayRef<bool> needed, mlir::Value x);

/// What a gradient was before it was rounded to fewer bits: the operand of a narrowing cast, else
/// itself.
mlir::Value beforeRounding(mlir::Value gradient);

/// The first axes of a shape of that rank: 0 … count−1.
llvm::SmallVector<int64_t> leadingAxes(int64_t count);

/// The tensor that `value` is a broadcast of, as small as numpy broadcasting allows it to be.
mlir::Value beforeBroadcast(mlir::Value value);

} // namespace maestro::nn
