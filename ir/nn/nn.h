// The `nn` dialect in C++: the one header for those who read or build its operators.
#pragma once

#include "base/dtype.h"
#include "ir/dim_expr.h"
#include "ir/nn/op_answers.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace maestro {
/// For uniquing in types and attributes.
inline llvm::hash_code hash_value(const DimExpr &expr) { return expr.hash(); }
llvm::raw_ostream &operator<<(llvm::raw_ostream &stream, const DimExpr &expr);
} // namespace maestro

namespace maestro::nn {

// Traits: nn_ops.td says what each means.
template <typename Op> class Elementwise : public mlir::OpTrait::TraitBase<Op, Elementwise> {};
template <typename Op> class Rearranges : public mlir::OpTrait::TraitBase<Op, Rearranges> {};
template <typename Op> class MovesData : public mlir::OpTrait::TraitBase<Op, MovesData> {};
template <typename Op> class Linear : public mlir::OpTrait::TraitBase<Op, Linear> {};
template <typename Op> class Bilinear : public mlir::OpTrait::TraitBase<Op, Bilinear> {};
template <typename Op> class LinearInFirst : public mlir::OpTrait::TraitBase<Op, LinearInFirst> {};
template <typename Op> class LinearInSecond : public mlir::OpTrait::TraitBase<Op, LinearInSecond> {};
template <typename Op> class RoundsOnce : public mlir::OpTrait::TraitBase<Op, RoundsOnce> {};

/// The element type as the executor knows it; nothing for types that no tensor can have.
std::optional<DType> dtypeOf(mlir::Type elementType);
mlir::Type elementTypeOf(mlir::MLIRContext *context, DType dtype);

/// The shape that numpy's broadcasting gives; nothing where two dims do not agree.
std::optional<llvm::SmallVector<DimExpr>> broadcastShapes(llvm::ArrayRef<DimExpr> a, llvm::ArrayRef<DimExpr> b);
DimExpr productOf(llvm::ArrayRef<DimExpr> dims);
/// `[batch, 4*images]`
std::string shapeText(llvm::ArrayRef<DimExpr> shape);

} // namespace maestro::nn

#include "ir/nn/nn_dialect.h.inc"
#include "ir/nn/nn_interfaces.h.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/nn/nn_attrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/nn/nn_types.h.inc"
#define GET_OP_CLASSES
#include "ir/nn/nn_ops.h.inc"

namespace maestro::nn {

/// The type of `value`, which must be an `nn` tensor.
inline TensorType typeOf(mlir::Value value) { return mlir::cast<TensorType>(value.getType()); }

/// The value of all elements of a constant: a fill, a splat, or what casts (applied), reshapes, transposes and
/// broadcasts make of one. A fill's is as written, not rounded to its type. Nothing for what is not known at plan time.
std::optional<double> constantValue(mlir::Value value);
/// The argument, a parameter mostly, that `value` is in another layout or element type; null for what is computed.
mlir::BlockArgument argumentBehind(mlir::Value value);

/// Creates an operator whose result types are inferred. Where they cannot be (shapes that contradict each
/// other), reports why at `location` and creates nothing; `OpTy::create` would end the process instead.
template <typename OpTy, typename... Args>
mlir::FailureOr<OpTy> tryCreate(mlir::OpBuilder &builder, mlir::Location location, Args &&...args) {
  mlir::OperationState state(location, OpTy::getOperationName());
  // The builder wants result types before any can be inferred: placeholders.
  unsigned count = OpTy::template hasTrait<mlir::OpTrait::NResults<3>::Impl>()   ? 3
                   : OpTy::template hasTrait<mlir::OpTrait::NResults<2>::Impl>() ? 2
                                                                                 : 1;
  llvm::SmallVector<mlir::Type> types(count, builder.getNoneType());
  OpTy::build(builder, state, mlir::TypeRange(types), std::forward<Args>(args)...);
  types.clear();
  if (mlir::failed(OpTy::inferReturnTypes(builder.getContext(), location, state.operands,
                                          state.attributes.getDictionary(builder.getContext()),
                                          state.getRawProperties(), mlir::RegionRange(), types)))
    return mlir::failure();
  state.types.assign(types.begin(), types.end());
  return mlir::cast<OpTy>(builder.create(state));
}

} // namespace maestro::nn
