// Gradients of recurrences. One operator goes back through the positions; the weight's gradient is then one product
// over all rows and positions.
#include "base/recurrent_cell.h"
#include "ir/nn/gradients.h"

using namespace mlir;

namespace maestro::nn {
namespace {

/// Elements [offset, offset + size) of the last dim, or of another.
Value part(GradientBuilder &b, Value value, int64_t axis, const DimExpr &offset, const DimExpr &size) {
  SmallVector<DimExpr> shape(shapeOf(value)), offsets(shape.size(), DimExpr(0));
  shape[axis] = size;
  offsets[axis] = offset;
  SmallVector<int64_t> steps(shape.size(), 1);
  return b.emit<SliceOp>(typeOf(value).withShape(shape), value, DimsAttr::get(b.getContext(), offsets), steps);
}

class RecurrenceGradient {
public:
  RecurrenceGradient(GradientBuilder &b, RecurrenceOp op)
      : b(b), op(op), cell(*recurrentCellFromName(op.getCell())), hidden(typeOf(op.getWeight()).getDim(1)),
        length(typeOf(op.getX()).getDim(1)) {}

  /// The gradient of W·h, given x's.
  Value ofProduct(Value dx) {
    if (cell != RecurrentCell::Gru)
      return dx;
    Value reset = part(b, op.getGates(), 2, hidden, hidden);
    Value candidate = b.emit<MulOp>(part(b, dx, 2, 2 * hidden, hidden), reset);
    return b.emit<ConcatOp>(ValueRange{part(b, dx, 2, DimExpr(0), 2 * hidden), candidate}, 2);
  }

  Value ofWeight(Value dproduct) {
    bool narrow = typeOf(dproduct).getElementType().getIntOrFloatBitWidth() < 32;
    return b.emit<MatmulOp>(b.flattenedRows(dproduct), b.flattenedRows(before()), Value(), /*transpose_a=*/true,
                            /*transpose_b=*/false, narrow);
  }

  Value ofBias(Value dproduct) { return b.wideSum(part(b, dproduct, 2, 2 * hidden, hidden), {0, 1}); }

private:
  /// h before each position.
  Value before() {
    Value first = b.reshape(part(b, op.getInitial(), 1, DimExpr(0), hidden),
                            {typeOf(op.getInitial()).getDim(0), DimExpr(1), hidden});
    if (length.isConstant(1))
      return first;
    Value all = part(b, op.getStates(), 2, DimExpr(0), hidden);
    Value others = part(b, all, 1, DimExpr(op.getReverse() ? 1 : 0), length - 1);
    return b.emit<ConcatOp>(op.getReverse() ? ValueRange{others, first} : ValueRange{first, others}, 1);
  }

  GradientBuilder &b;
  RecurrenceOp op;
  RecurrentCell cell;
  DimExpr hidden, length;
};

} // namespace

MAESTRO_GRADIENT(RecurrenceOp) {
  operandGradients.assign(getNumOperands(), Value());
  if (resultGradients[1])
    return emitOpError() << "passes gradients through states only, not through gates";
  if (!resultGradients[0])
    return success();
  GradientBuilder b(*this, builder);
  auto grad = RecurrenceGradOp::create(b, resultGradients[0], getWeight(), getInitial(), getStates(), getGates(),
                                       getLengths(), getCellAttr(), getReverseAttr());
  if (needed[0])
    operandGradients[0] = grad.getDx();
  if (needed[2])
    operandGradients[2] = grad.getDinitial();
  bool wantsBias = getBias() && needed[3];
  if (!needed[1] && !wantsBias)
    return success();
  RecurrenceGradient gradient(b, *this);
  Value dproduct = gradient.ofProduct(grad.getDx());
  if (needed[1])
    operandGradients[1] = b.cast(gradient.ofWeight(dproduct), typeOf(getWeight()).getElementType());
  if (wantsBias)
    operandGradients[3] = b.cast(gradient.ofBias(dproduct), typeOf(getBias()).getElementType());
  return success();
}

} // namespace maestro::nn
