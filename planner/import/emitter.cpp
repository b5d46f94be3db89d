#include "planner/import/emitter.h"

#include "base/saturate.h"

#include <fmt/format.h>

#include <cstring>

namespace maestro::planner {

Status Emitter::refused(llvm::StringRef op) {
  std::string message = diagnostic.empty() ? fmt::format("'{}' cannot be formed", op.str()) : diagnostic;
  diagnostic.clear();
  return Status::invalidInput(message);
}

Status Emitter::requireEqual(const DimExpr &a, const DimExpr &b, std::string_view what) {
  if (a == b)
    return {};
  if (!constraints.unify(a, b))
    return Status::invalidInput(fmt::format("{}: dims {} and {} cannot be equal", what, a.str(), b.str()));
  restart = true;
  return Status::internal(fmt::format("{}: dims {} and {} are equal", what, a.str(), b.str()));
}

Result<bool> Emitter::isNegative(const DimExpr &index) const {
  auto low = constraints.least(index), lowNegated = constraints.least(-index);
  if (low && *low >= 0)
    return false;
  if (lowNegated && *lowNegated > 0)
    return true;
  return Status::invalidInput(fmt::format("cannot tell whether index {} is negative", index.str()));
}

Result<Shape> Emitter::broadcast(llvm::ArrayRef<DimExpr> a, llvm::ArrayRef<DimExpr> b) {
  Shape result(std::max(a.size(), b.size()), DimExpr(1));
  for (size_t i = 0; i < result.size(); ++i) {
    DimExpr x = i < a.size() ? a[a.size() - 1 - i] : DimExpr(1);
    DimExpr y = i < b.size() ? b[b.size() - 1 - i] : DimExpr(1);
    bool one = x.isConstant(1) || y.isConstant(1);
    if (!one)
      MAESTRO_TRY(
          requireEqual(x, y, fmt::format("shapes {} and {} do not broadcast", nn::shapeText(a), nn::shapeText(b))));
    result[result.size() - 1 - i] = x.isConstant(1) ? y : x;
  }
  return result;
}

nn::TensorType Emitter::type(llvm::ArrayRef<DimExpr> shape, DType dtype) {
  return nn::TensorType::get(builder.getContext(), shape, nn::elementTypeOf(builder.getContext(), dtype));
}

nn::TensorType Emitter::like(mlir::Value value, llvm::ArrayRef<DimExpr> shape) {
  return nn::TensorType::get(builder.getContext(), shape, nn::typeOf(value).getElementType());
}

nn::DimsAttr Emitter::dims(llvm::ArrayRef<DimExpr> values) { return nn::DimsAttr::get(builder.getContext(), values); }

Result<mlir::Value> Emitter::scaled(mlir::Value x, double factor) {
  if (factor == 1)
    return x;
  return emit<nn::MulOp>(x, scalar(factor, dtypeOf(x)));
}

mlir::Value Emitter::reshape(mlir::Value x, llvm::ArrayRef<DimExpr> shape) {
  if (shapeOf(x) == shape)
    return x;
  // A view of a view is a view.
  if (auto inner = x.getDefiningOp<nn::ReshapeOp>()) {
    x = inner.getX();
    if (shapeOf(x) == shape)
      return x;
  }
  return typed<nn::ReshapeOp>(like(x, shape), x);
}

Result<mlir::Value> Emitter::transpose(mlir::Value x, llvm::ArrayRef<int64_t> permutation) {
  bool identity = true;
  for (size_t i = 0; i < permutation.size(); ++i)
    identity &= permutation[i] == static_cast<int64_t>(i);
  if (identity)
    return x;
  return emit<nn::TransposeOp>(x, permutation);
}

mlir::Value Emitter::broadcastTo(mlir::Value x, llvm::ArrayRef<DimExpr> shape) {
  if (shapeOf(x) == shape)
    return x;
  return typed<nn::BroadcastToOp>(like(x, shape), x);
}

mlir::Value Emitter::cast(mlir::Value x, DType dtype) {
  if (dtypeOf(x) == dtype)
    return x;
  return typed<nn::CastOp>(type(shapeOf(x), dtype), x);
}

mlir::Value Emitter::sliceAxis(mlir::Value x, int64_t axis, const DimExpr &offset, const DimExpr &size) {
  Shape shape(shapeOf(x));
  if (shape[axis] == size && offset.isConstant(0))
    return x;
  Shape offsets(shape.size(), DimExpr(0));
  offsets[axis] = offset;
  shape[axis] = size;
  Ints steps(shape.size(), 1);
  return typed<nn::SliceOp>(like(x, shape), x, dims(offsets), llvm::ArrayRef<int64_t>(steps));
}

mlir::Value Emitter::padRank(mlir::Value x, int64_t rank) {
  Shape shape(shapeOf(x));
  if (static_cast<int64_t>(shape.size()) < rank)
    shape.insert(shape.begin(), rank - shape.size(), DimExpr(1));
  return reshape(x, shape);
}

namespace {

/// The element in the type's own bytes.
void appendElement(std::vector<char> &bytes, DType dtype, const FoldedElement &element) {
  auto append = [&](auto value) {
    const char *begin = reinterpret_cast<const char *>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof(value));
  };
  const DimExpr *dim = std::get_if<DimExpr>(&element);
  int64_t integer = dim ? dim->asConstant().value_or(0) : saturatedInt64(std::get<double>(element));
  double real = dim ? static_cast<double>(integer) : std::get<double>(element);
  switch (dtype) {
  case DType::F32:
    return append(static_cast<float>(real));
  case DType::F64:
    return append(real);
  case DType::BF16:
    return append(BFloat16(static_cast<float>(real)).bits);
  case DType::F16:
    return append(floatToHalf(static_cast<float>(real)));
  case DType::I64:
    return append(integer);
  case DType::I32:
    return append(static_cast<int32_t>(integer));
  case DType::I16:
    return append(static_cast<int16_t>(integer));
  case DType::I8:
    return append(static_cast<int8_t>(integer));
  case DType::U8:
    return append(static_cast<uint8_t>(integer));
  case DType::Bool:
    return append(static_cast<uint8_t>(integer != 0));
  }
}

} // namespace

mlir::Value Emitter::materialize(const FoldedTensor &folded) {
  if (!folded.isConstant())
    return symbolicTensor(folded);
  std::vector<char> bytes;
  for (const FoldedElement &element : folded.elements)
    appendElement(bytes, folded.dtype, element);
  mlir::Type elementType = nn::elementTypeOf(builder.getContext(), folded.dtype);
  auto shaped = mlir::RankedTensorType::get(folded.shape, elementType);
  mlir::DenseElementsAttr value;
  if (folded.dtype == DType::Bool) {
    llvm::SmallVector<bool> flags(bytes.begin(), bytes.end());
    value = mlir::DenseElementsAttr::get(shaped, llvm::ArrayRef<bool>(flags));
  } else {
    value = mlir::DenseElementsAttr::getFromRawBuffer(shaped, bytes);
  }
  Shape shape(folded.shape.begin(), folded.shape.end());
  return typed<nn::ConstantOp>(type(shape, folded.dtype), value);
}

mlir::Value Emitter::symbolicTensor(const FoldedTensor &folded) {
  Shape values;
  for (int64_t i = 0; i < folded.size(); ++i)
    values.push_back(folded.asDim(i).value_or(DimExpr(0)));
  Shape flat;
  if (folded.rank() != 0)
    flat.push_back(DimExpr(folded.size()));
  mlir::Value result = typed<nn::DimValuesOp>(type(flat, DType::I64), dims(values));
  Shape shape(folded.shape.begin(), folded.shape.end());
  return cast(reshape(result, shape), folded.dtype);
}

Result<mlir::Value> Emitter::sumAll(mlir::Value x) {
  Ints axes = llvm::to_vector(llvm::seq<int64_t>(0, rankOf(x)));
  return axes.empty() ? Result<mlir::Value>(x) : emit<nn::ReduceSumOp>(x, llvm::ArrayRef<int64_t>(axes), false);
}

Result<mlir::Value> Emitter::isNot(mlir::Value x, int64_t value) {
  MAESTRO_ASSIGN(mlir::Value equal, emit<nn::EqualOp>(x, scalar(static_cast<double>(value), dtypeOf(x))));
  return emit<nn::NotOp>(equal);
}

mlir::Value Emitter::scalar(double value, DType dtype) {
  FoldedElement element = value;
  if (!isFloat(dtype))
    element = DimExpr(saturatedInt64(value));
  return materialize(FoldedTensor::scalar(dtype, element));
}

mlir::Value Emitter::fill(double value, llvm::ArrayRef<DimExpr> shape, DType dtype) {
  return typed<nn::FillOp>(type(shape, dtype), builder.getF64FloatAttr(value));
}

mlir::Value Emitter::iota(const DimExpr &count) {
  return typed<nn::IotaOp>(type({count}, DType::I64), dims({DimExpr(0)}), dims({DimExpr(1)}));
}

} // namespace maestro::planner
