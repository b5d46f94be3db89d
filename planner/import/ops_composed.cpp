// Activations and hyperbolic functions that are made of other operators.
#include "planner/import/import_state.h"
#include "planner/import/op_table.h"

namespace maestro::planner {
namespace {

/// where(x > 0, positive, negative)
Result<mlir::Value> selectPositive(NodeContext &n, mlir::Value x, mlir::Value positive, mlir::Value negative) {
  MAESTRO_ASSIGN(mlir::Value above, n.e.emit<nn::GreaterOp>(x, n.e.scalar(0, Emitter::dtypeOf(x))));
  return n.e.emit<nn::WhereOp>(above, positive, negative);
}

Status importLeakyRelu(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value below, n.e.scaled(x, n.floatAttribute("alpha", 0.01)));
  return n.set(0, selectPositive(n, x, x, below));
}

Status importPRelu(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value slope, n.tensor(1));
  MAESTRO_ASSIGN(mlir::Value below, n.e.binary<nn::MulOp>(x, slope));
  return n.set(0, selectPositive(n, x, x, below));
}

/// gamma · (x > 0 ? x : alpha·(eˣ⁄ᵈ − 1)); the exponent is kept at most 0 so that no gradient
/// overflows. At 0 the gradient is the exponential's.
Result<mlir::Value> exponentialUnit(NodeContext &n, double alpha, double gamma, double divisor) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  DType dtype = Emitter::dtypeOf(x);
  MAESTRO_ASSIGN(mlir::Value low, selectPositive(n, x, n.e.scalar(0, dtype), x));
  MAESTRO_ASSIGN(low, n.e.scaled(low, 1 / divisor));
  MAESTRO_ASSIGN(mlir::Value power, n.e.emit<nn::ExpOp>(low));
  MAESTRO_ASSIGN(mlir::Value below, n.e.emit<nn::SubOp>(power, n.e.scalar(1, dtype)));
  MAESTRO_ASSIGN(below, n.e.scaled(below, alpha));
  MAESTRO_ASSIGN(mlir::Value y, selectPositive(n, x, x, below));
  return n.e.scaled(y, gamma);
}

Status importElu(NodeContext &n) { return n.set(0, exponentialUnit(n, n.floatAttribute("alpha", 1), 1, 1)); }

Status importSelu(NodeContext &n) {
  return n.set(0, exponentialUnit(n, n.floatAttribute("alpha", 1.67326319217681884765625f),
                                  n.floatAttribute("gamma", 1.05070102214813232421875f), 1));
}

Status importCelu(NodeContext &n) {
  double alpha = n.floatAttribute("alpha", 1);
  return n.set(0, exponentialUnit(n, alpha, 1, alpha));
}

/// x · sigmoid(alpha·x)
Status importSwish(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  double alpha = n.floatAttribute("alpha", 1);
  if (alpha == 1)
    return n.set(0, n.e.emit<nn::SiluOp>(x));
  MAESTRO_ASSIGN(mlir::Value gate, n.e.scaled(x, alpha));
  MAESTRO_ASSIGN(gate, n.e.emit<nn::SigmoidOp>(gate));
  return n.set(0, n.e.emit<nn::MulOp>(x, gate));
}

Status importMish(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value gate, n.e.emit<nn::SoftplusOp>(x));
  MAESTRO_ASSIGN(gate, n.e.emit<nn::TanhOp>(gate));
  return n.set(0, n.e.emit<nn::MulOp>(x, gate));
}

Status importSoftsign(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value size, n.e.emit<nn::AbsOp>(x));
  MAESTRO_ASSIGN(size, n.e.emit<nn::AddOp>(size, n.e.scalar(1, Emitter::dtypeOf(x))));
  return n.set(0, n.e.emit<nn::DivOp>(x, size));
}

Status importThresholdedRelu(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  DType dtype = Emitter::dtypeOf(x);
  MAESTRO_ASSIGN(mlir::Value above, n.e.emit<nn::GreaterOp>(x, n.e.scalar(n.floatAttribute("alpha", 1), dtype)));
  return n.set(0, n.e.emit<nn::WhereOp>(above, x, n.e.scalar(0, dtype)));
}

/// tan, sinh, cosh by their definitions.
Status importTan(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value sine, n.e.emit<nn::SinOp>(x));
  MAESTRO_ASSIGN(mlir::Value cosine, n.e.emit<nn::CosOp>(x));
  return n.set(0, n.e.emit<nn::DivOp>(sine, cosine));
}

template <typename Join> Status importHyperbolic(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value up, n.e.emit<nn::ExpOp>(x));
  MAESTRO_ASSIGN(mlir::Value negative, n.e.emit<nn::NegOp>(x));
  MAESTRO_ASSIGN(mlir::Value down, n.e.emit<nn::ExpOp>(negative));
  MAESTRO_ASSIGN(mlir::Value both, n.e.emit<Join>(up, down));
  return n.set(0, n.e.scaled(both, 0.5));
}

/// arsinh x = sign x · ln(|x| + √(x² + 1)), so that nothing cancels for negative x.
Status importAsinh(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  mlir::Value one = n.e.scalar(1, Emitter::dtypeOf(x));
  MAESTRO_ASSIGN(mlir::Value size, n.e.emit<nn::AbsOp>(x));
  MAESTRO_ASSIGN(mlir::Value root, n.e.emit<nn::MulOp>(x, x));
  MAESTRO_ASSIGN(root, n.e.emit<nn::AddOp>(root, one));
  MAESTRO_ASSIGN(root, n.e.emit<nn::SqrtOp>(root));
  MAESTRO_ASSIGN(mlir::Value sum, n.e.emit<nn::AddOp>(size, root));
  MAESTRO_ASSIGN(mlir::Value y, n.e.emit<nn::LogOp>(sum));
  MAESTRO_ASSIGN(mlir::Value sign, n.e.emit<nn::SignOp>(x));
  return n.set(0, n.e.emit<nn::MulOp>(sign, y));
}

/// arcosh x = ln(x + √((x − 1)·(x + 1)))
Status importAcosh(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  mlir::Value one = n.e.scalar(1, Emitter::dtypeOf(x));
  MAESTRO_ASSIGN(mlir::Value below, n.e.emit<nn::SubOp>(x, one));
  MAESTRO_ASSIGN(mlir::Value above, n.e.emit<nn::AddOp>(x, one));
  MAESTRO_ASSIGN(mlir::Value root, n.e.emit<nn::MulOp>(below, above));
  MAESTRO_ASSIGN(root, n.e.emit<nn::SqrtOp>(root));
  MAESTRO_ASSIGN(mlir::Value sum, n.e.emit<nn::AddOp>(x, root));
  return n.set(0, n.e.emit<nn::LogOp>(sum));
}

/// artanh x = ½ ln((1 + x) ÷ (1 − x))
Status importAtanh(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  mlir::Value one = n.e.scalar(1, Emitter::dtypeOf(x));
  MAESTRO_ASSIGN(mlir::Value above, n.e.emit<nn::AddOp>(one, x));
  MAESTRO_ASSIGN(mlir::Value below, n.e.emit<nn::SubOp>(one, x));
  MAESTRO_ASSIGN(mlir::Value ratio, n.e.emit<nn::DivOp>(above, below));
  MAESTRO_ASSIGN(mlir::Value y, n.e.emit<nn::LogOp>(ratio));
  return n.set(0, n.e.scaled(y, 0.5));
}

} // namespace

std::span<const OpEntry> composedOps() {
  static constexpr OpEntry kOps[] = {
      {"Acosh", 9, importAcosh},
      {"Asinh", 9, importAsinh},
      {"Atanh", 9, importAtanh},
      {"Celu", 12, importCelu},
      {"Cosh", 9, importHyperbolic<nn::AddOp>},
      {"Elu", 6, importElu},
      {"LeakyRelu", 6, importLeakyRelu},
      {"Mish", 18, importMish},
      {"PRelu", 9, importPRelu},
      {"Selu", 6, importSelu},
      {"Sinh", 9, importHyperbolic<nn::SubOp>},
      {"Softsign", 1, importSoftsign},
      {"Swish", 24, importSwish},
      {"Tan", 7, importTan},
      {"ThresholdedRelu", 10, importThresholdedRelu},
  };
  return kOps;
}

} // namespace maestro::planner
