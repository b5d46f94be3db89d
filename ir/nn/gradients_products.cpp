// Gradients of products and convolutions. Weight gradients are sums over all positions: they come
// out of the product in f32, whatever the operands' type, and a 2-D weight's is one product over
// flattened positions rather than a batch of small ones.
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {
namespace {

/// One operand of a product: a tensor, and whether its last two dims are swapped in memory.
struct Factor {
  Value value;
  bool transposed;
};

/// left · right, or in memory order of a transposed result: (left · right)ᵀ = rightᵀ · leftᵀ.
Value product(GradientBuilder &b, Factor left, Factor right, bool transposeResult, bool wide) {
  if (transposeResult) {
    std::swap(left, right);
    left.transposed = !left.transposed;
    right.transposed = !right.transposed;
  }
  bool narrow = typeOf(left.value).getElementType().getIntOrFloatBitWidth() < 32;
  return b.emit<MatmulOp>(left.value, right.value, Value(), left.transposed, right.transposed, wide && narrow);
}

/// dB = Aᵀ·dC. When B is shared by a batch of A and no A is transposed, positions are flattened
/// first.
Value rightGradient(GradientBuilder &b, MatmulOp op, Value dy) {
  Factor a{op.getA(), !op.getTransposeA()};
  bool shared = rankOf(op.getB()) == 2 && rankOf(dy) > 2;
  if (shared && !op.getTransposeA() && rankOf(op.getA()) == rankOf(dy))
    return product(b, {b.flattenedRows(op.getA()), true}, {b.flattenedRows(dy), false}, op.getTransposeB(),
                   /*wide=*/true);
  return product(b, a, {dy, false}, op.getTransposeB(), shared || argumentBehind(op.getB()));
}

Value biasGradient(GradientBuilder &b, Value dy, Value bias, int64_t channelAxis) {
  SmallVector<int64_t> axes;
  for (int64_t i = 0; i < rankOf(dy); ++i)
    if (i != channelAxis)
      axes.push_back(i);
  Value sum = b.wideSum(dy, axes);
  return b.cast(b.sumTo(sum, TensorType::get(b.getContext(), shapeOf(bias), typeOf(sum).getElementType())),
                typeOf(bias).getElementType());
}

} // namespace

MAESTRO_GRADIENT(MatmulOp) {
  operandGradients.assign(getNumOperands(), Value());
  if (!resultGradients[0] || !isFloatTensor(getResult()))
    return success();
  GradientBuilder b(*this, builder);
  Value dy = b.cast(resultGradients[0], typeOf(getA()).getElementType());
  if (needed[0]) {
    bool wide = rankOf(getA()) < rankOf(dy) || argumentBehind(getA());
    Value da = product(b, {dy, false}, {getB(), !getTransposeB()}, getTransposeA(), wide);
    operandGradients[0] = b.sumTo(da, typeOf(getA()));
  }
  if (needed[1])
    operandGradients[1] = b.sumTo(rightGradient(b, *this, dy), typeOf(getB()));
  if (getBias() && needed[2])
    operandGradients[2] = biasGradient(b, resultGradients[0], getBias(), rankOf(dy) - 1);
  return success();
}

MAESTRO_GRADIENT(ConvOp) {
  operandGradients.assign(getNumOperands(), Value());
  Value dy = resultGradients[0];
  if (!dy)
    return success();
  GradientBuilder b(*this, builder);
  if (needed[0])
    operandGradients[0] = b.emit<ConvGradInputOp>(getX().getType(), dy, getW(), getStridesAttr(), getPadsAttr(),
                                                  getDilationsAttr(), getGroupAttr());
  if (needed[1]) {
    TensorType type = typeOf(getW());
    auto wide = TensorType::get(b.getContext(), type.getShape(), type.getAccumulatorType());
    Value sum =
        b.emit<ConvGradWeightOp>(wide, getX(), dy, getStridesAttr(), getPadsAttr(), getDilationsAttr(), getGroupAttr());
    operandGradients[1] = b.cast(sum, type.getElementType());
  }
  if (getBias() && needed[2])
    operandGradients[2] = biasGradient(b, dy, getBias(), 1);
  return success();
}

/// The result x̄ = Wᵀ·dy is linear in dy and w: a gradient g of x̄ passes to dy as conv(g, w).
MAESTRO_GRADIENT(ConvGradInputOp) {
  operandGradients.assign(2, Value());
  Value g = resultGradients[0];
  if (!g)
    return success();
  GradientBuilder b(*this, builder);
  if (needed[0]) {
    Value ddy = b.emit<ConvOp>(g, getW(), Value(), getStridesAttr(), getPadsAttr(), getDilationsAttr(), getGroupAttr());
    if (ddy.getType() != getDy().getType())
      return emitOpError() << "has no gradient for dy: a convolution of " << g.getType() << " gives " << ddy.getType()
                           << ", not " << getDy().getType();
    operandGradients[0] = ddy;
  }
  if (needed[1])
    operandGradients[1] = b.emit<ConvGradWeightOp>(getW().getType(), g, getDy(), getStridesAttr(), getPadsAttr(),
                                                   getDilationsAttr(), getGroupAttr());
  return success();
}

} // namespace maestro::nn
