// Result types of elementwise operators.
#include "ir/nn/infer.h"

namespace maestro::nn {

using llvm::LogicalResult;
using mlir::failed;

/// Which element types a unary operator takes.
enum class Domain { Number, Float, Bool };

static LogicalResult checkDomain(const Inference &inference, TensorType x, Domain domain) {
  if (domain == Domain::Float)
    return inference.checkFloat("x", x);
  if (domain == Domain::Bool)
    return inference.checkBool("x", x);
  return x.isBool() ? inference.fail("x must be numbers, is i1") : mlir::success();
}

static LogicalResult inferUnary(Inference inference, TensorType x, Domain domain) {
  if (failed(checkDomain(inference, x, domain)))
    return mlir::failure();
  return inference.add(x);
}

#define MAESTRO_INFER_UNARY(OpTy, domain)                                                                              \
  MAESTRO_INFER(OpTy) { return inferUnary({getOperationName(), location, types}, tensorOf(adaptor.getX()), domain); }
MAESTRO_INFER_UNARY(NegOp, Domain::Number)
MAESTRO_INFER_UNARY(AbsOp, Domain::Number)
MAESTRO_INFER_UNARY(SignOp, Domain::Number)
MAESTRO_INFER_UNARY(ReluOp, Domain::Number)
MAESTRO_INFER_UNARY(ExpOp, Domain::Float)
MAESTRO_INFER_UNARY(LogOp, Domain::Float)
MAESTRO_INFER_UNARY(SqrtOp, Domain::Float)
MAESTRO_INFER_UNARY(RsqrtOp, Domain::Float)
MAESTRO_INFER_UNARY(ReciprocalOp, Domain::Float)
MAESTRO_INFER_UNARY(SinOp, Domain::Float)
MAESTRO_INFER_UNARY(CosOp, Domain::Float)
MAESTRO_INFER_UNARY(AsinOp, Domain::Float)
MAESTRO_INFER_UNARY(AcosOp, Domain::Float)
MAESTRO_INFER_UNARY(AtanOp, Domain::Float)
MAESTRO_INFER_UNARY(TanhOp, Domain::Float)
MAESTRO_INFER_UNARY(SigmoidOp, Domain::Float)
MAESTRO_INFER_UNARY(ErfOp, Domain::Float)
MAESTRO_INFER_UNARY(SiluOp, Domain::Float)
MAESTRO_INFER_UNARY(SoftplusOp, Domain::Float)
MAESTRO_INFER_UNARY(FloorOp, Domain::Float)
MAESTRO_INFER_UNARY(DetachOp, Domain::Float)
MAESTRO_INFER_UNARY(CeilOp, Domain::Float)
MAESTRO_INFER_UNARY(RoundOp, Domain::Float)
MAESTRO_INFER_UNARY(NotOp, Domain::Bool)

static LogicalResult inferPredicate(Inference inference, TensorType x) {
  if (failed(inference.checkFloat("x", x)))
    return mlir::failure();
  return inference.add(x.getShape(), mlir::IntegerType::get(x.getContext(), 1));
}

#define MAESTRO_INFER_PREDICATE(OpTy)                                                                                  \
  MAESTRO_INFER(OpTy) { return inferPredicate({getOperationName(), location, types}, tensorOf(adaptor.getX())); }
MAESTRO_INFER_PREDICATE(IsNaNOp)
MAESTRO_INFER_PREDICATE(IsInfOp)

static LogicalResult checkApproximate(const Inference &inference, llvm::StringRef approximate) {
  if (approximate == "none" || approximate == "tanh")
    return mlir::success();
  return inference.fail("approximate must be \"none\" or \"tanh\", is \"" + approximate + "\"");
}

MAESTRO_INFER(GeluOp) {
  Inference inference(getOperationName(), location, types);
  if (failed(checkApproximate(inference, adaptor.getApproximate())))
    return mlir::failure();
  return inferUnary(inference, tensorOf(adaptor.getX()), Domain::Float);
}

static LogicalResult inferUnaryGrad(Inference inference, TensorType saved, TensorType dy) {
  if (failed(inference.checkFloat("dy", dy)) || failed(inference.checkSameElement("saved and dy", saved, dy)) ||
      failed(inference.checkShape("dy", dy, saved.getShape())))
    return mlir::failure();
  return inference.add(dy);
}

#define MAESTRO_INFER_UNARY_GRAD(OpTy)                                                                                 \
  MAESTRO_INFER(OpTy) {                                                                                                \
    return inferUnaryGrad({getOperationName(), location, types}, tensorOf(adaptor.getSaved()),                         \
                          tensorOf(adaptor.getDy()));                                                                  \
  }
MAESTRO_INFER_UNARY_GRAD(TanhGradOp)
MAESTRO_INFER_UNARY_GRAD(SigmoidGradOp)
MAESTRO_INFER_UNARY_GRAD(ReluGradOp)
MAESTRO_INFER_UNARY_GRAD(SiluGradOp)

MAESTRO_INFER(GeluGradOp) {
  Inference inference(getOperationName(), location, types);
  if (failed(checkApproximate(inference, adaptor.getApproximate())))
    return mlir::failure();
  return inferUnaryGrad(inference, tensorOf(adaptor.getSaved()), tensorOf(adaptor.getDy()));
}

static LogicalResult checkGlu(const Inference &inference, TensorType gate, TensorType up, llvm::StringRef activation) {
  if (activation != "silu" && activation != "gelu" && activation != "gelu_tanh")
    return inference.fail("activation must be \"silu\", \"gelu\" or \"gelu_tanh\", is \"" + activation + "\"");
  if (failed(inference.checkFloat("gate", gate)) || failed(inference.checkSameElement("gate and up", gate, up)))
    return mlir::failure();
  return inference.checkShape("up", up, gate.getShape());
}

MAESTRO_INFER(GluOp) {
  Inference inference(getOperationName(), location, types);
  TensorType gate = tensorOf(adaptor.getGate());
  if (failed(checkGlu(inference, gate, tensorOf(adaptor.getUp()), adaptor.getActivation())))
    return mlir::failure();
  return inference.add(gate);
}

MAESTRO_INFER(GluGradOp) {
  Inference inference(getOperationName(), location, types);
  TensorType gate = tensorOf(adaptor.getGate()), dy = tensorOf(adaptor.getDy());
  if (failed(checkGlu(inference, gate, tensorOf(adaptor.getUp()), adaptor.getActivation())) ||
      failed(inference.checkSameElement("gate and dy", gate, dy)) ||
      failed(inference.checkShape("dy", dy, gate.getShape())) || failed(inference.add(gate)))
    return mlir::failure();
  return inference.add(gate);
}

//===----------------------------------------------------------------------===//
// Two and three operands
//===----------------------------------------------------------------------===//

static LogicalResult addBroadcast(Inference &inference, TensorType a, TensorType b, mlir::Type elementType) {
  std::optional<llvm::SmallVector<DimExpr>> shape = broadcastShapes(a.getShape(), b.getShape());
  if (!shape)
    return inference.fail("shapes " + shapeText(a.getShape()) + " and " + shapeText(b.getShape()) +
                          " do not broadcast: dims must be the same expression or 1");
  return inference.add(*shape, elementType);
}

static LogicalResult inferBinary(Inference inference, TensorType lhs, TensorType rhs, Domain domain) {
  if (failed(inference.checkSameElement("operands", lhs, rhs)))
    return mlir::failure();
  if (domain == Domain::Bool && failed(inference.checkBool("lhs", lhs)))
    return mlir::failure();
  if (domain == Domain::Number && lhs.isBool())
    return inference.fail("operands must be numbers, are i1");
  return addBroadcast(inference, lhs, rhs, lhs.getElementType());
}

static LogicalResult inferCompare(Inference inference, TensorType lhs, TensorType rhs) {
  if (failed(inference.checkSameElement("operands", lhs, rhs)))
    return mlir::failure();
  return addBroadcast(inference, lhs, rhs, mlir::IntegerType::get(lhs.getContext(), 1));
}

#define MAESTRO_INFER_BINARY(OpTy, domain)                                                                             \
  MAESTRO_INFER(OpTy) {                                                                                                \
    return inferBinary({getOperationName(), location, types}, tensorOf(adaptor.getLhs()), tensorOf(adaptor.getRhs()),  \
                       domain);                                                                                        \
  }
MAESTRO_INFER_BINARY(AddOp, Domain::Number)
MAESTRO_INFER_BINARY(SubOp, Domain::Number)
MAESTRO_INFER_BINARY(MulOp, Domain::Number)
MAESTRO_INFER_BINARY(DivOp, Domain::Number)
MAESTRO_INFER_BINARY(MaximumOp, Domain::Number)
MAESTRO_INFER_BINARY(MinimumOp, Domain::Number)
MAESTRO_INFER_BINARY(ModOp, Domain::Number)
MAESTRO_INFER_BINARY(AndOp, Domain::Bool)
MAESTRO_INFER_BINARY(OrOp, Domain::Bool)
MAESTRO_INFER_BINARY(XorOp, Domain::Bool)

#define MAESTRO_INFER_COMPARE(OpTy)                                                                                    \
  MAESTRO_INFER(OpTy) {                                                                                                \
    return inferCompare({getOperationName(), location, types}, tensorOf(adaptor.getLhs()),                             \
                        tensorOf(adaptor.getRhs()));                                                                   \
  }
MAESTRO_INFER_COMPARE(EqualOp)
MAESTRO_INFER_COMPARE(LessOp)
MAESTRO_INFER_COMPARE(LessEqualOp)
MAESTRO_INFER_COMPARE(GreaterOp)
MAESTRO_INFER_COMPARE(GreaterEqualOp)

MAESTRO_INFER(PowOp) {
  Inference inference(getOperationName(), location, types);
  TensorType lhs = tensorOf(adaptor.getLhs()), rhs = tensorOf(adaptor.getRhs());
  if (lhs.isBool() || rhs.isBool())
    return inference.fail("operands must be numbers");
  return addBroadcast(inference, lhs, rhs, lhs.getElementType());
}

MAESTRO_INFER(WhereOp) {
  Inference inference(getOperationName(), location, types);
  TensorType condition = tensorOf(adaptor.getCondition()), onTrue = tensorOf(adaptor.getOnTrue()),
             onFalse = tensorOf(adaptor.getOnFalse());
  if (failed(inference.checkBool("condition", condition)) ||
      failed(inference.checkSameElement("onTrue and onFalse", onTrue, onFalse)))
    return mlir::failure();
  std::optional<llvm::SmallVector<DimExpr>> values = broadcastShapes(onTrue.getShape(), onFalse.getShape());
  if (!values)
    return inference.fail("shapes " + shapeText(onTrue.getShape()) + " and " + shapeText(onFalse.getShape()) +
                          " do not broadcast");
  return addBroadcast(inference, condition, onTrue.withShape(*values), onTrue.getElementType());
}

} // namespace maestro::nn
