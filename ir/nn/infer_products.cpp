// Result types of matrix products and convolutions.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::LogicalResult;
using llvm::SmallVector;
using llvm::Twine;
using mlir::failed;
using mlir::failure;

/// The last two dims as rows and columns, after an optional transposition.
static std::pair<DimExpr, DimExpr> matrixDims(TensorType type, bool transposed) {
  DimExpr rows = type.getDim(type.getRank() - 2), columns = type.getDim(type.getRank() - 1);
  return transposed ? std::pair(columns, rows) : std::pair(rows, columns);
}

static LogicalResult checkMatmulOperands(const Inference &inference, TensorType a, TensorType b, TensorType bias) {
  if (failed(inference.checkFloat("a", a)) || failed(inference.checkSameElement("a and b", a, b)) ||
      failed(inference.checkRank("a", a, 2, TensorType::kMaxRank)) ||
      failed(inference.checkRank("b", b, 2, TensorType::kMaxRank)))
    return failure();
  return bias ? inference.checkSameElement("a and bias", a, bias) : mlir::success();
}

/// The shape of matmul's result; `adaptor` is that of any operator with matmul's operands.
template <typename Adaptor>
static mlir::FailureOr<SmallVector<DimExpr>> matmulShape(const Inference &inference, Adaptor adaptor) {
  TensorType a = tensorOf(adaptor.getA()), b = tensorOf(adaptor.getB()), bias = tensorOf(adaptor.getBias());
  if (failed(checkMatmulOperands(inference, a, b, bias)))
    return failure();
  auto [rows, inner] = matrixDims(a, adaptor.getTransposeA());
  auto [innerOfB, columns] = matrixDims(b, adaptor.getTransposeB());
  if (inner != innerOfB)
    return inference.fail("inner dims " + inner.str() + " and " + innerOfB.str() + " of " + shapeText(a.getShape()) +
                          " and " + shapeText(b.getShape()) + " differ");
  std::optional<SmallVector<DimExpr>> shape = broadcastShapes(a.getShape().drop_back(2), b.getShape().drop_back(2));
  if (!shape)
    return inference.fail("leading dims of " + shapeText(a.getShape()) + " and " + shapeText(b.getShape()) +
                          " do not broadcast");
  if (bias && failed(inference.checkShape("bias", bias, {columns})))
    return failure();
  shape->append({rows, columns});
  return *shape;
}

MAESTRO_INFER(MatmulOp) {
  Inference inference(getOperationName(), location, types);
  mlir::FailureOr<SmallVector<DimExpr>> shape = matmulShape(inference, adaptor);
  if (failed(shape))
    return failure();
  TensorType a = tensorOf(adaptor.getA());
  return inference.add(*shape, adaptor.getF32Result() ? a.getAccumulatorType() : a.getElementType());
}

MAESTRO_INFER(MatmulAddOp) {
  Inference inference(getOperationName(), location, types);
  mlir::FailureOr<SmallVector<DimExpr>> shape = matmulShape(inference, adaptor);
  if (failed(shape))
    return failure();
  TensorType a = tensorOf(adaptor.getA()), addend = tensorOf(adaptor.getAddend());
  if (addend.getElementType() != a.getAccumulatorType() &&
      failed(inference.checkSameElement("a and addend", a, addend)))
    return failure();
  if (failed(inference.checkShape("addend", addend, *shape)))
    return failure();
  return inference.add(addend);
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

static LogicalResult checkWindow(const Inference &inference, size_t spatialRank, const Window &window) {
  if (window.kernel.size() != spatialRank || window.strides.size() != spatialRank ||
      window.dilations.size() != spatialRank || window.pads.size() != 2 * spatialRank)
    return inference.fail("wants " + Twine(spatialRank) + " kernel sizes, strides and dilations and " +
                          Twine(2 * spatialRank) + " pads, one (pads: two) for each spatial dim");
  auto isPositive = [](int64_t value) { return value > 0; };
  if (!llvm::all_of(window.strides, isPositive) || !llvm::all_of(window.dilations, isPositive))
    return inference.fail("strides and dilations must be positive");
  for (int64_t pad : window.pads)
    if (pad < 0)
      return inference.fail("pads must not be negative, one is " + Twine(pad));
  return mlir::success();
}

/// How many windows fit; with ceilMode also partial ones, unless they start in the padding behind the end.
static DimExpr windowCount(const DimExpr &dim, const Window &window, size_t i) {
  DimExpr low = window.pads[i], high = window.pads[window.kernel.size() + i];
  DimExpr span = DimExpr(window.dilations[i]) * (window.kernel[i] - 1) + 1;
  DimExpr room = dim + low + high - span;
  if (!window.ceilMode)
    return DimExpr::floorDiv(room, window.strides[i]) + 1;
  return DimExpr::min(DimExpr::ceilDiv(room, window.strides[i]) + 1, DimExpr::ceilDiv(dim + low, window.strides[i]));
}

LogicalResult windowShape(const Inference &inference, llvm::ArrayRef<DimExpr> spatial, const Window &window,
                          llvm::SmallVectorImpl<DimExpr> &shape) {
  if (failed(checkWindow(inference, spatial.size(), window)))
    return failure();
  for (size_t i = 0; i < spatial.size(); ++i) {
    if (isAlwaysNegative(window.kernel[i] - 1))
      return inference.fail("kernel size " + window.kernel[i].str() + " is below 1");
    DimExpr count = windowCount(spatial[i], window, i);
    if (isAlwaysNegative(count - 1))
      return inference.fail("a window of " + window.kernel[i].str() + " (dilation " + Twine(window.dilations[i]) +
                            ") does not fit into spatial dim " + Twine(i) + " of size " + spatial[i].str() +
                            " with its pads");
    shape.push_back(count);
  }
  return mlir::success();
}

LogicalResult convShape(const Inference &inference, TensorType x, TensorType w, const Window &window, int64_t group,
                        llvm::SmallVectorImpl<DimExpr> &shape) {
  if (failed(inference.checkFloat("x", x)) || failed(inference.checkRank("x [N, C, spatial…]", x, 3, 5)) ||
      failed(inference.checkRank("w (as x)", w, x.getRank(), x.getRank())))
    return failure();
  if (group < 1 || x.getDim(1) != w.getDim(1) * group || !w.getDim(0).exactQuotient(group))
    return inference.fail("w " + shapeText(w.getShape()) + " in " + Twine(group) + " groups does not fit x " +
                          shapeText(x.getShape()));
  shape.append({x.getDim(0), w.getDim(0)});
  return windowShape(inference, x.getShape().drop_front(2), window, shape);
}

MAESTRO_INFER(ConvOp) {
  Inference inference(getOperationName(), location, types);
  TensorType x = tensorOf(adaptor.getX()), w = tensorOf(adaptor.getW()), bias = tensorOf(adaptor.getBias());
  SmallVector<DimExpr> shape;
  if (failed(inference.checkSameElement("x and w", x, w)) ||
      failed(convShape(inference, x, w, windowOf(adaptor, w.getShape().drop_front(2)),
                       static_cast<int64_t>(adaptor.getGroup()), shape)))
    return failure();
  if (bias && (failed(inference.checkSameElement("x and bias", x, bias)) ||
               failed(inference.checkShape("bias", bias, {w.getDim(0)}))))
    return failure();
  return inference.add(shape, x.getElementType());
}

} // namespace maestro::nn
