// Floating point operations and bytes of operators that are not elementwise. A multiply-add counts two;
// transcendental functions count as kTranscendental. Only products, convolutions and attention are compute-bound:
// the others' counts rank them, their bytes decide.
#include "ir/nn/nn.h"

namespace maestro::nn {

/// An exponential or a logarithm, in additions: what vectorised ones take.
static constexpr int64_t kTranscendental = 8;

static DimExpr elements(mlir::Value value) { return typeOf(value).getNumElements(); }

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

template <typename Op> static DimExpr matmulFlops(Op op) {
  llvm::ArrayRef<DimExpr> a = typeOf(op.getA()).getShape();
  DimExpr inner = op.getTransposeA() ? a[a.size() - 2] : a.back();
  DimExpr flops = 2 * elements(op.getResult()) * inner;
  return op.getBias() ? flops + elements(op.getResult()) : flops;
}
DimExpr MatmulOp::getFlops() { return matmulFlops(*this); }
DimExpr MatmulAddOp::getFlops() { return matmulFlops(*this) + elements(getResult()); }

/// Each element of y multiplies one filter: w without its first dim.
static DimExpr convFlops(TensorType w, TensorType y) {
  return 2 * y.getNumElements() * productOf(w.getShape().drop_front(1));
}

DimExpr ConvOp::getFlops() {
  DimExpr flops = convFlops(typeOf(getW()), typeOf(getY()));
  return getBias() ? flops + elements(getY()) : flops;
}
DimExpr ConvGradInputOp::getFlops() { return convFlops(typeOf(getW()), typeOf(getDy())); }
DimExpr ConvGradWeightOp::getFlops() { return convFlops(typeOf(getDw()), typeOf(getDy())); }

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

static DimExpr poolFlops(mlir::Value y, llvm::ArrayRef<int64_t> kernel) {
  DimExpr window = 1;
  for (int64_t size : kernel)
    window = window * size;
  return elements(y) * window;
}
DimExpr MaxPoolOp::getFlops() { return poolFlops(getY(), getKernel()); }
DimExpr AvgPoolOp::getFlops() { return poolFlops(getY(), getKernel()); }

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// B·H·S·T: the scores, all of them. A causal kernel may skip up to half; the planner counts what runs at worst.
template <typename Op> static DimExpr scoreCount(Op op) {
  llvm::ArrayRef<DimExpr> k = typeOf(op.getK()).getShape();
  DimExpr rows = productOf(typeOf(op.getLse()).getShape());
  return rows * k[op.getSequenceMajor() ? 1 : 2];
}

DimExpr AttentionOp::getFlops() {
  DimExpr depth = typeOf(getQ()).getDim(3), valueDepth = typeOf(getV()).getDim(3);
  return scoreCount(*this) * (2 * depth + 2 * valueDepth + kTranscendental + 4);
}

/// Scores again, then dv, dp, dq, dk.
DimExpr AttentionGradOp::getFlops() {
  DimExpr depth = typeOf(getQ()).getDim(3), valueDepth = typeOf(getV()).getDim(3);
  return scoreCount(*this) * (6 * depth + 4 * valueDepth + kTranscendental + 6);
}

//===----------------------------------------------------------------------===//
// Recurrences
//===----------------------------------------------------------------------===//

/// A row of the weight for each block element of x, and its activation.
DimExpr RecurrenceOp::getFlops() {
  return elements(getX()) * (2 * typeOf(getWeight()).getDim(1) + kTranscendental + 4);
}
DimExpr RecurrenceGradOp::getFlops() { return elements(getDx()) * (2 * typeOf(getWeight()).getDim(1) + 8); }

//===----------------------------------------------------------------------===//
// Softmax, norms, losses: per element
//===----------------------------------------------------------------------===//

DimExpr SoftmaxOp::getFlops() { return elements(getX()) * (kTranscendental + 4); }
DimExpr LogSoftmaxOp::getFlops() { return elements(getX()) * (kTranscendental + 4); }
DimExpr SoftmaxGradOp::getFlops() { return elements(getDy()) * 4; }
DimExpr LogSoftmaxGradOp::getFlops() { return elements(getDy()) * (kTranscendental + 3); }
DimExpr LayerNormOp::getFlops() { return elements(getX()) * 8; }
DimExpr LayerNormGradOp::getFlops() { return elements(getX()) * 14; }
DimExpr RmsNormOp::getFlops() { return elements(getX()) * 4; }
DimExpr RmsNormGradOp::getFlops() { return elements(getX()) * 10; }
DimExpr DropoutOp::getFlops() { return elements(getX()) * 12; } // A quarter of a Philox block, a multiply.
DimExpr CrossEntropyOp::getFlops() { return elements(getLogits()) * (kTranscendental + 3); }
DimExpr CrossEntropyGradOp::getFlops() { return elements(getLogits()) * (kTranscendental + 3); }
DimExpr KlDivergenceOp::getFlops() { return elements(getStudent()) * 2 * (kTranscendental + 5); }
DimExpr KlDivergenceGradOp::getFlops() { return elements(getStudent()) * 2 * (kTranscendental + 4); }

DimExpr GluGradOp::getFlops() { return elements(getGate()) * (kTranscendental + 8); }

DimExpr ReduceSumOp::getFlops() { return elements(getX()); }
DimExpr ReduceMeanOp::getFlops() { return elements(getX()); }
DimExpr ReduceMaxOp::getFlops() { return elements(getX()); }
DimExpr ReduceMinOp::getFlops() { return elements(getX()); }
DimExpr ReduceProdOp::getFlops() { return elements(getX()); }

//===----------------------------------------------------------------------===//
// Bytes of operators that read a part of an operand
//===----------------------------------------------------------------------===//

/// As many bytes of the first operand as the result has, and the other operands whole.
static DimExpr partBytes(mlir::Operation *op) {
  DimExpr bytes = 2 * typeOf(op->getResult(0)).getByteSize();
  for (mlir::Value operand : op->getOperands().drop_front())
    bytes = bytes + typeOf(operand).getByteSize();
  return bytes;
}

DimExpr SliceOp::getBytes() { return partBytes(*this); }
DimExpr GatherOp::getBytes() { return partBytes(*this); }
DimExpr GatherElementsOp::getBytes() { return partBytes(*this); }
DimExpr GatherNDOp::getBytes() { return partBytes(*this); }

} // namespace maestro::nn
