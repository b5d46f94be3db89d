// Verifiers of operators whose result types are given. What depends on symbols is refused only where it is wrong
// for all sizes; kernels may rely on the rest because importers derive it.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::ArrayRef;
using llvm::LogicalResult;
using llvm::SmallVector;
using llvm::Twine;
using mlir::failed;
using mlir::failure;
using mlir::success;

LogicalResult CastOp::verify() {
  return Verification(*this).checkShape("y", typeOf(getY()), typeOf(getX()).getShape());
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

LogicalResult ConstantOp::verify() {
  Verification verification(*this);
  TensorType type = typeOf(getResult());
  mlir::ShapedType value = getValue().getShapedType();
  if (value.getElementType() != type.getElementType())
    return verification.fail("value and result differ in element type");
  SmallVector<DimExpr> shape;
  if (value.hasRank())
    shape.assign(value.getShape().begin(), value.getShape().end());
  return verification.checkShape("the result", type, shape);
}

LogicalResult FillOp::verify() {
  TensorType type = typeOf(getResult());
  double value = getValue().convertToDouble();
  if (type.isFloat() || value == std::trunc(value))
    return success();
  return Verification(*this).fail("value " + std::to_string(value) + " is no integer");
}

LogicalResult IotaOp::verify() {
  Verification verification(*this);
  if (getStart().getValues().size() != 1 || getStep().getValues().size() != 1)
    return verification.fail("start and step are one symbolic integer each");
  TensorType type = typeOf(getResult());
  if (type.isBool())
    return verification.fail("the result must be numbers, is i1");
  return verification.checkRank("the result", type, 1, 1);
}

LogicalResult DimValuesOp::verify() {
  Verification verification(*this);
  TensorType type = typeOf(getResult());
  int64_t count = static_cast<int64_t>(getValues().getValues().size());
  if (type.isBool())
    return verification.fail("the result must be numbers, is i1");
  if (type.getRank() == 0 && count == 1)
    return success();
  return verification.checkShape("the result", type, {DimExpr(count)});
}

//===----------------------------------------------------------------------===//
// Moving data
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  Verification verification(*this);
  TensorType x = typeOf(getX()), y = typeOf(getY());
  if (failed(verification.checkSameElement("x and y", x, y)))
    return failure();
  if (x.getNumElements() == y.getNumElements())
    return success();
  return verification.fail(shapeText(x.getShape()) + " has " + x.getNumElements().str() + " elements, " +
                           shapeText(y.getShape()) + " has " + y.getNumElements().str());
}

LogicalResult BroadcastToOp::verify() {
  Verification verification(*this);
  TensorType x = typeOf(getX()), y = typeOf(getY());
  if (failed(verification.checkSameElement("x and y", x, y)))
    return failure();
  return verification.checkBroadcastsTo("x", x, y.getShape());
}

/// Whether `part` lies within `whole` at offsets and steps, as far as that is decidable.
static LogicalResult checkPart(const Verification &verification, TensorType part, TensorType whole,
                               ArrayRef<DimExpr> offsets, ArrayRef<int64_t> steps) {
  int64_t rank = whole.getRank();
  if (failed(verification.checkSameElement("operand and result", part, whole)) ||
      failed(verification.checkRank("the part", part, rank, rank)))
    return failure();
  if (static_cast<int64_t>(offsets.size()) != rank || static_cast<int64_t>(steps.size()) != rank)
    return verification.fail("wants " + Twine(rank) + " offsets and steps, one for each dim");
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (steps[dim] == 0)
      return verification.fail("step of dim " + Twine(dim) + " is 0");
    if (isAlwaysNegative(part.getDim(dim) - 1))
      continue;
    DimExpr first = offsets[dim], last = first + (part.getDim(dim) - 1) * steps[dim];
    for (const DimExpr &index : {first, last})
      if (isAlwaysNegative(index) || isAlwaysNegative(whole.getDim(dim) - 1 - index))
        return verification.fail("index " + index.str() + " is outside dim " + Twine(dim) + " of size " +
                                 whole.getDim(dim).str());
  }
  return success();
}

LogicalResult SliceOp::verify() {
  return checkPart(Verification(*this), typeOf(getY()), typeOf(getX()), getOffsets().getValues(), getSteps());
}

LogicalResult SliceGradOp::verify() {
  return checkPart(Verification(*this), typeOf(getDy()), typeOf(getDx()), getOffsets().getValues(), getSteps());
}

LogicalResult PadOp::verify() {
  Verification verification(*this);
  TensorType x = typeOf(getX()), y = typeOf(getY());
  ArrayRef<DimExpr> low = getLow().getValues(), high = getHigh().getValues();
  if (!llvm::is_contained({"constant", "reflect", "edge", "wrap"}, getMode()))
    return verification.fail("mode must be constant, reflect, edge or wrap, is \"" + getMode() + "\"");
  if (failed(verification.checkSameElement("x and y", x, y)))
    return failure();
  if (static_cast<int64_t>(low.size()) != x.getRank() || high.size() != low.size())
    return verification.fail("wants " + Twine(x.getRank()) + " low and high pads, one for each dim");
  SmallVector<DimExpr> shape;
  for (int64_t dim = 0; dim < x.getRank(); ++dim) {
    if (isAlwaysNegative(low[dim]) || isAlwaysNegative(high[dim]))
      return verification.fail("pads of dim " + Twine(dim) + " are negative");
    shape.push_back(low[dim] + x.getDim(dim) + high[dim]);
  }
  return verification.checkShape("y", y, shape);
}

//===----------------------------------------------------------------------===//
// Gathering
//===----------------------------------------------------------------------===//

/// A gradient that sums many positions has dy's element type, or the wider one that sums are kept in.
static LogicalResult checkSum(const Verification &verification, TensorType sum, TensorType dy) {
  if (sum.getElementType() == dy.getAccumulatorType())
    return success();
  return verification.checkSameElement("dy and the result", dy, sum);
}

LogicalResult GatherGradOp::verify() {
  Verification verification(*this);
  TensorType indices = typeOf(getIndices()), dy = typeOf(getDy()), sum = typeOf(getDdata());
  int64_t axis = static_cast<int64_t>(getAxis());
  if (failed(verification.checkInteger("indices", indices)) || failed(verification.checkAxis(axis, sum)) ||
      failed(checkSum(verification, sum, dy)))
    return failure();
  return verification.checkShape("dy", dy, gatherShape(sum, indices, axis));
}

LogicalResult GatherNDGradOp::verify() {
  Verification verification(*this);
  TensorType dy = typeOf(getDy()), sum = typeOf(getDdata());
  SmallVector<DimExpr> shape;
  if (failed(gatherNDShape(verification, sum, typeOf(getIndices()), static_cast<int64_t>(getBatchDims()), shape)) ||
      failed(checkSum(verification, sum, dy)))
    return failure();
  return verification.checkShape("dy", dy, shape);
}

LogicalResult MaskedScatterGradOp::verify() {
  Verification verification(*this);
  TensorType mask = typeOf(getMask()), dy = typeOf(getDy());
  if (failed(verification.checkBool("mask", mask)) || failed(verification.checkShape("mask", mask, dy.getShape())))
    return failure();
  return verification.checkSameElement("dy and the result", dy, typeOf(getDsource()));
}

//===----------------------------------------------------------------------===//
// Along an axis
//===----------------------------------------------------------------------===//

LogicalResult TopKOp::verify() {
  Verification verification(*this);
  TensorType x = typeOf(getX()), values = typeOf(getValues()), indices = typeOf(getIndices());
  int64_t axis = static_cast<int64_t>(getAxis());
  if (failed(verification.checkAxis(axis, x)) || failed(verification.checkSameElement("x and values", x, values)) ||
      failed(verification.checkRank("values", values, x.getRank(), x.getRank())))
    return failure();
  SmallVector<DimExpr> shape(x.getShape());
  shape[axis] = values.getDim(axis);
  if (isAlwaysNegative(x.getDim(axis) - shape[axis]))
    return verification.fail("k = " + shape[axis].str() + " exceeds the dim's size " + x.getDim(axis).str());
  if (!indices.getElementType().isInteger(64))
    return verification.fail("indices must be i64");
  if (failed(verification.checkShape("values", values, shape)))
    return failure();
  return verification.checkShape("indices", indices, shape);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Whether conv(x, w) has dy's shape.
template <typename Op> static LogicalResult checkConvGrad(Op op, TensorType x, TensorType w, TensorType dy) {
  Verification verification(op);
  SmallVector<DimExpr> shape;
  if (failed(verification.checkRank("w", w, 3, 5)) ||
      failed(convShape(verification, x, w, windowOf(op, w.getShape().drop_front(2)),
                       static_cast<int64_t>(op.getGroup()), shape)))
    return failure();
  return verification.checkShape("dy", dy, shape);
}

LogicalResult ConvGradInputOp::verify() {
  TensorType dx = typeOf(getDx()), w = typeOf(getW()), dy = typeOf(getDy());
  Verification verification(*this);
  if (failed(verification.checkSameElement("dy and w", dy, w)) ||
      failed(verification.checkSameElement("dy and dx", dy, dx)))
    return failure();
  return checkConvGrad(*this, dx, w, dy);
}

LogicalResult ConvGradWeightOp::verify() {
  TensorType x = typeOf(getX()), dw = typeOf(getDw()), dy = typeOf(getDy());
  Verification verification(*this);
  if (failed(verification.checkSameElement("x and dy", x, dy)) || failed(checkSum(verification, dw, dy)))
    return failure();
  return checkConvGrad(*this, x, dw, dy);
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

template <typename Op> static LogicalResult checkPoolGrad(Op op, TensorType x, TensorType dy) {
  Verification verification(op);
  SmallVector<DimExpr> shape;
  if (failed(verification.checkFloat("dy", dy)) || failed(verification.checkSameElement("dy and dx", dy, x)) ||
      failed(poolShape(verification, x, poolWindowOf(op), shape)))
    return failure();
  return verification.checkShape("dy", dy, shape);
}

LogicalResult MaxPoolGradOp::verify() {
  TensorType x = typeOf(getX());
  if (failed(Verification(*this).checkShape("dx", typeOf(getDx()), x.getShape())))
    return failure();
  return checkPoolGrad(*this, x, typeOf(getDy()));
}

LogicalResult AvgPoolGradOp::verify() { return checkPoolGrad(*this, typeOf(getDx()), typeOf(getDy())); }

} // namespace maestro::nn
