// Checks that type inference and verification share; see infer.h.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::LogicalResult;
using llvm::Twine;
using mlir::success;

static std::string typeText(TensorType type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

LogicalResult Inference::fail(const Twine &message) const {
  return mlir::emitOptionalError(location, op, ": ", message);
}

LogicalResult Inference::add(llvm::ArrayRef<DimExpr> shape, mlir::Type elementType) {
  auto report = [&]() {
    if (!location)
      return mlir::InFlightDiagnostic();
    return std::move(mlir::emitError(*location) << op << ": result ");
  };
  TensorType type = TensorType::getChecked(report, elementType.getContext(), shape, elementType);
  if (!type)
    return mlir::failure();
  types.push_back(type);
  return success();
}

LogicalResult Inference::checkAxis(int64_t axis, TensorType type) const {
  if (axis >= 0 && axis < type.getRank())
    return success();
  return fail("axis " + Twine(axis) + " is outside 0.." + Twine(type.getRank() - 1) + " of " + typeText(type));
}

LogicalResult Inference::checkFloat(llvm::StringRef what, TensorType type) const {
  return type.isFloat() ? success() : fail(what + " must be floating point, is " + typeText(type));
}

LogicalResult Inference::checkBool(llvm::StringRef what, TensorType type) const {
  return type.isBool() ? success() : fail(what + " must have element type i1, is " + typeText(type));
}

LogicalResult Inference::checkInteger(llvm::StringRef what, TensorType type) const {
  return type.isFloat() || type.isBool() ? fail(what + " must be integers, is " + typeText(type)) : success();
}

LogicalResult Inference::checkSameElement(llvm::StringRef what, TensorType a, TensorType b) const {
  if (a.getElementType() == b.getElementType())
    return success();
  return fail(what + " differ in element type: " + typeText(a) + " and " + typeText(b));
}

LogicalResult Inference::checkShape(llvm::StringRef what, TensorType type, llvm::ArrayRef<DimExpr> expected) const {
  if (type.getShape() == expected)
    return success();
  return fail(what + " must have shape " + shapeText(expected) + ", is " + typeText(type));
}

LogicalResult Inference::checkBroadcastsTo(llvm::StringRef what, TensorType type, llvm::ArrayRef<DimExpr> shape) const {
  std::optional<llvm::SmallVector<DimExpr>> together = broadcastShapes(type.getShape(), shape);
  if (together && llvm::ArrayRef<DimExpr>(*together) == shape)
    return success();
  return fail(what + " must broadcast to " + shapeText(shape) + ", is " + typeText(type));
}

LogicalResult Inference::checkRank(llvm::StringRef what, TensorType type, int64_t least, int64_t most) const {
  if (type.getRank() >= least && type.getRank() <= most)
    return success();
  std::string range = Twine(least).str() + (least == most ? "" : " to " + Twine(most).str());
  return fail(what + " must have rank " + range + ", is " + typeText(type));
}

} // namespace maestro::nn
