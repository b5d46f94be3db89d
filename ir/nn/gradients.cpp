// The building blocks of gradients; see gradients.h.
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {

bool isFloatTensor(Value value) { return llvm::isa<FloatType>(typeOf(value).getElementType()); }

Value arriving(ValueRange resultGradients, ArrayRef<bool> needed, Value x) {
  return needed[0] && isFloatTensor(x) ? resultGradients[0] : Value();
}

Value beforeRounding(Value gradient) {
  auto cast = gradient.getDefiningOp<CastOp>();
  if (!cast || !isFloatTensor(cast.getX()) || !isFloatTensor(gradient))
    return gradient;
  auto bits = [](Value value) { return typeOf(value).getElementType().getIntOrFloatBitWidth(); };
  return bits(cast.getX()) > bits(gradient) ? Value(cast.getX()) : gradient;
}

llvm::SmallVector<int64_t> leadingAxes(int64_t count) {
  llvm::SmallVector<int64_t> axes(count);
  for (int64_t i = 0; i < count; ++i)
    axes[i] = i;
  return axes;
}

Value GradientBuilder::scalar(Value like, double value) {
  auto type = TensorType::get(getContext(), {}, typeOf(like).getElementType());
  return emit<FillOp>(type, getF64FloatAttr(value));
}

Value GradientBuilder::scaled(Value value, double factor) { return emit<MulOp>(value, scalar(value, factor)); }

Value GradientBuilder::zeros(TensorType type) { return emit<FillOp>(type, getF64FloatAttr(0.0)); }

Value GradientBuilder::cast(Value value, Type elementType) {
  TensorType type = typeOf(value);
  if (type.getElementType() == elementType)
    return value;
  return emit<CastOp>(TensorType::get(getContext(), type.getShape(), elementType), value);
}

Value GradientBuilder::flattenedRows(Value value) {
  ArrayRef<DimExpr> shape = shapeOf(value);
  DimExpr rows(1);
  for (const DimExpr &dim : shape.drop_back())
    rows = rows * dim;
  return reshape(value, {rows, shape.back()});
}

Value GradientBuilder::reshape(Value value, llvm::ArrayRef<DimExpr> shape) {
  if (shapeOf(value) == shape)
    return value;
  return emit<ReshapeOp>(TensorType::get(getContext(), shape, typeOf(value).getElementType()), value);
}

Value GradientBuilder::widened(Value value) {
  Type element = typeOf(value).getElementType();
  return element.getIntOrFloatBitWidth() < 32 ? cast(value, getF32Type()) : value;
}

Value GradientBuilder::wideSum(Value value, llvm::ArrayRef<int64_t> axes) {
  value = widened(value);
  return axes.empty() ? value : emit<ReduceSumOp>(value, axes, /*keepdims=*/false);
}

Value GradientBuilder::sumTo(Value value, TensorType type) {
  llvm::ArrayRef<DimExpr> from = shapeOf(value), to = type.getShape();
  int64_t added = from.size() - to.size();
  llvm::SmallVector<int64_t> axes = leadingAxes(added);
  for (int64_t i = 0; i < int64_t(to.size()); ++i)
    if (to[i].isConstant(1) && !from[i + added].isConstant(1))
      axes.push_back(i + added);
  if (!axes.empty())
    value = wideSum(value, axes);
  return cast(reshape(value, to), type.getElementType());
}

Value GradientBuilder::restoreAxes(Value value, llvm::ArrayRef<DimExpr> full, llvm::ArrayRef<int64_t> axes) {
  llvm::SmallVector<DimExpr> shape(full);
  for (int64_t axis : axes)
    shape[axis] = DimExpr(1);
  return reshape(value, shape);
}

Value beforeBroadcast(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (auto broadcast = llvm::dyn_cast<BroadcastToOp>(op)) {
      value = broadcast.getX();
      continue;
    }
    // A reshape that only adds or drops ones in front changes no broadcasting.
    auto reshape = llvm::dyn_cast<ReshapeOp>(op);
    if (!reshape)
      break;
    auto dropOnes = [](llvm::ArrayRef<DimExpr> shape) {
      return shape.drop_while([](const DimExpr &dim) { return dim.isConstant(1); });
    };
    if (dropOnes(shapeOf(value)) != dropOnes(shapeOf(reshape.getX())) || rankOf(reshape.getX()) > rankOf(value))
      break;
    value = reshape.getX();
  }
  return value;
}

} // namespace maestro::nn
