// Emits `nn` operators for one ONNX node: the checks that ONNX graphs need (dims that must agree), and the
// few compositions that many operators share.
#pragma once

#include "base/status.h"
#include "ir/nn/nn.h"
#include "planner/import/symbolic_value.h"

#include <string>

namespace maestro::planner {

using Shape = llvm::SmallVector<DimExpr>;
using Ints = llvm::SmallVector<int64_t>;

class Emitter {
public:
  Emitter(mlir::OpBuilder &builder, DimConstraints &constraints) : builder(builder), constraints(constraints) {}
  /// Under what is known of dims: the names they have, the bounds that decide a min or max.
  DimExpr known(const DimExpr &dim) const { return constraints.apply(dim); }
  /// Whether an index counts from the end; InvalidInput where that depends on a dim.
  Result<bool> isNegative(const DimExpr &index) const;

  mlir::OpBuilder &builder;
  mlir::Location location = builder.getUnknownLoc();
  /// Message of the last operator that could not be created.
  std::string diagnostic;
  /// Set when two dims turned out to be equal: the import starts again with one name for both.
  bool restart = false;

  /// Fails unless a = b can hold.
  Status requireEqual(const DimExpr &a, const DimExpr &b, std::string_view what);
  /// The shape that broadcasting gives; makes dims equal where neither is 1.
  Result<Shape> broadcast(llvm::ArrayRef<DimExpr> a, llvm::ArrayRef<DimExpr> b);

  /// The first result of an operator whose result types are inferred.
  template <typename OpTy, typename... Args> Result<mlir::Value> emit(Args &&...args) {
    auto op = mlir::FailureOr<OpTy>(nn::tryCreate<OpTy>(builder, location, std::forward<Args>(args)...));
    if (mlir::failed(op))
      return refused(OpTy::getOperationName());
    return mlir::Value((*op)->getResult(0));
  }
  template <typename OpTy, typename... Args> Result<OpTy> emitOp(Args &&...args) {
    auto op = mlir::FailureOr<OpTy>(nn::tryCreate<OpTy>(builder, location, std::forward<Args>(args)...));
    if (mlir::failed(op))
      return refused(OpTy::getOperationName());
    return *op;
  }
  /// The first result of an operator whose result type is given.
  template <typename OpTy, typename... Args> mlir::Value typed(nn::TensorType type, Args &&...args) {
    return OpTy::create(builder, location, type, std::forward<Args>(args)...)->getResult(0);
  }
  /// Elementwise with broadcasting.
  template <typename OpTy, typename... Args> Result<mlir::Value> binary(mlir::Value a, mlir::Value b, Args &&...args) {
    MAESTRO_ASSIGN(Shape shape, broadcast(shapeOf(a), shapeOf(b)));
    return emit<OpTy>(a, b, std::forward<Args>(args)...);
  }

  static llvm::ArrayRef<DimExpr> shapeOf(mlir::Value value) { return nn::typeOf(value).getShape(); }
  static int64_t rankOf(mlir::Value value) { return static_cast<int64_t>(shapeOf(value).size()); }
  static DType dtypeOf(mlir::Value value) { return *nn::dtypeOf(nn::typeOf(value).getElementType()); }
  nn::TensorType type(llvm::ArrayRef<DimExpr> shape, DType dtype);
  nn::TensorType like(mlir::Value value, llvm::ArrayRef<DimExpr> shape);
  nn::DimsAttr dims(llvm::ArrayRef<DimExpr> values);

  /// These return `x` itself where there is nothing to do.
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<DimExpr> shape);
  Result<mlir::Value> transpose(mlir::Value x, llvm::ArrayRef<int64_t> permutation);
  mlir::Value broadcastTo(mlir::Value x, llvm::ArrayRef<DimExpr> shape);
  mlir::Value cast(mlir::Value x, DType dtype);
  /// x[offset : offset + size] along one axis.
  mlir::Value sliceAxis(mlir::Value x, int64_t axis, const DimExpr &offset, const DimExpr &size);
  /// Puts dims of extent 1 in front until the rank is `rank`.
  mlir::Value padRank(mlir::Value x, int64_t rank);

  /// The sum of all elements; `x` itself where it is a scalar.
  Result<mlir::Value> sumAll(mlir::Value x);
  /// Where the integers `x` are not `value` (i1).
  Result<mlir::Value> isNot(mlir::Value x, int64_t value);

  /// A tensor from a folded one.
  mlir::Value materialize(const FoldedTensor &folded);
  /// A scalar of `like`'s element type.
  mlir::Value scalar(double value, DType dtype);
  Result<mlir::Value> scaled(mlir::Value x, double factor);
  mlir::Value fill(double value, llvm::ArrayRef<DimExpr> shape, DType dtype);
  /// 0, 1, … n − 1 as i64.
  mlir::Value iota(const DimExpr &count);

private:
  Status refused(llvm::StringRef op);
  mlir::Value symbolicTensor(const FoldedTensor &folded);
  DimConstraints &constraints;
};

} // namespace maestro::planner
