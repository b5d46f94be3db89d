// Elementwise operators, casts and comparisons.
#include "ir/nn/gradient_attributes.h"
#include "planner/import/half_precision.h"
#include "planner/import/import_state.h"
#include "planner/import/metadata.h"
#include "planner/import/onnx_file.h"
#include "planner/import/op_table.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace maestro::planner {
namespace {

template <typename OpTy> Status importUnary(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  return n.set(0, n.e.emit<OpTy>(x));
}

/// Floating point only in `nn`; integers are unchanged by them.
template <typename OpTy, FoldedUnary op> Status importFoldedUnary(NodeContext &n) {
  if (const FoldedTensor *x = n.folded(0); x && !(isHalfPrecision(x->dtype) && willWiden(n.state.function)))
    if (auto result = fold(op, *x))
      return n.set(0, std::move(*result));
  return importUnary<OpTy>(n);
}

/// x + 0, x − 0, x · 1, x ÷ 1, x and true, x or false: x where the result has x's shape.
bool isNeutral(FoldedBinary op, const FoldedTensor &constant) {
  bool additive = op == FoldedBinary::Add || op == FoldedBinary::Sub;
  bool multiplicative = op == FoldedBinary::Mul || op == FoldedBinary::Div;
  // −0 + 0 is 0: only integers are left alone under addition.
  if (additive)
    return !isFloat(constant.dtype) && constant.isUniform(0);
  if (multiplicative || op == FoldedBinary::And)
    return constant.isUniform(1);
  return op == FoldedBinary::Or && constant.isUniform(0);
}

bool broadcastsInto(const Shape &small, const Shape &large) {
  if (small.size() > large.size())
    return false;
  for (size_t i = 0; i < small.size(); ++i)
    if (!small[small.size() - 1 - i].isConstant(1) && !(small[small.size() - 1 - i] == large[large.size() - 1 - i]))
      return false;
  return true;
}

/// The input that passes through unchanged, or −1.
Result<int> neutralInput(NodeContext &n, FoldedBinary op) {
  bool commutes = op != FoldedBinary::Sub && op != FoldedBinary::Div;
  for (int constant : {1, 0}) {
    const FoldedTensor *known = n.folded(constant);
    if (!known || !isNeutral(op, *known) || (constant == 0 && !commutes))
      continue;
    MAESTRO_ASSIGN(Shape small, n.shape(constant));
    MAESTRO_ASSIGN(Shape large, n.shape(1 - constant));
    if (broadcastsInto(small, large))
      return 1 - constant;
  }
  return -1;
}

Status foldBinary(NodeContext &n, FoldedBinary op, bool &done) {
  const FoldedTensor *a = n.folded(0), *b = n.folded(1);
  if (a && b)
    if (auto result = fold(op, *a, *b)) {
      done = true;
      return n.set(0, std::move(*result));
    }
  MAESTRO_ASSIGN(int through, neutralInput(n, op));
  if (through < 0)
    return {};
  MAESTRO_ASSIGN(ImportedValue * value, n.value(through));
  done = true;
  return n.set(0, ImportedValue(*value));
}

Status checkSameType(NodeContext &n, int a, int b) {
  MAESTRO_ASSIGN(DType x, n.dtype(a));
  MAESTRO_ASSIGN(DType y, n.dtype(b));
  if (x == y)
    return {};
  return Status::invalidInput(fmt::format("inputs '{}' and '{}' have element types {} and {}, which must be equal",
                                          n.node.input(a), n.node.input(b), name(x), name(y)));
}

template <typename OpTy, FoldedBinary op> Status importBinary(NodeContext &n) {
  if (op != FoldedBinary::Pow)
    MAESTRO_TRY(checkSameType(n, 0, 1));
  bool done = false;
  MAESTRO_TRY(foldBinary(n, op, done));
  if (done)
    return {};
  MAESTRO_ASSIGN(mlir::Value a, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value b, n.tensor(1));
  return n.set(0, n.e.binary<OpTy>(a, b));
}

Status importPow(NodeContext &n) {
  const FoldedTensor *a = n.folded(0), *b = n.folded(1);
  if (a && b && a->dtype == b->dtype)
    if (auto result = fold(FoldedBinary::Pow, *a, *b))
      return n.set(0, std::move(*result));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value y, n.tensor(1));
  // The exponent in the base's type, unless that would lose its fraction.
  DType base = Emitter::dtypeOf(x), exponent = Emitter::dtypeOf(y);
  if (isFloat(base) || !isFloat(exponent))
    return n.set(0, n.e.binary<nn::PowOp>(x, n.e.cast(y, base)));
  MAESTRO_ASSIGN(mlir::Value power, n.e.binary<nn::PowOp>(n.e.cast(x, exponent), y));
  return n.set(0, n.e.cast(power, base));
}

Status importMod(NodeContext &n) {
  MAESTRO_TRY(checkSameType(n, 0, 1));
  bool fmod = n.intAttribute("fmod", 0) != 0;
  const FoldedTensor *a = n.folded(0), *b = n.folded(1);
  if (a && b)
    if (auto result = fold(fmod ? FoldedBinary::FMod : FoldedBinary::Mod, *a, *b))
      return n.set(0, std::move(*result));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value y, n.tensor(1));
  return n.set(0, n.e.binary<nn::ModOp>(x, y, fmod));
}

/// Whether PyTorch's call bounds by numbers, so that a value on its bound has no gradient. Where
/// the bound is a tensor, or the call is maximum() or minimum(), the two share it. The exporter
/// writes clamp(x, 0) as clamp(x, scalar_tensor(0)).
bool boundsByNumbers(const onnx::NodeProto &node, bool otherwise) {
  std::string_view text = fxNode(node), target = fxTarget(text);
  if (!target.starts_with("aten.clamp"))
    return otherwise && !target.starts_with("aten.maximum") && !target.starts_with("aten.minimum");
  std::vector<std::string> operands = fxOperands(text);
  return std::all_of(operands.begin() + std::min<size_t>(1, operands.size()), operands.end(),
                     [](const std::string &operand) { return operand.starts_with("scalar_tensor"); });
}

/// nn.maximum or nn.minimum with `bound`, which takes the gradient of ties where it `clamps`.
template <typename OpTy> Result<mlir::Value> bounded(NodeContext &n, mlir::Value x, mlir::Value bound, bool clamps) {
  MAESTRO_ASSIGN(mlir::Value y, n.e.binary<OpTy>(x, bound));
  if (clamps)
    y.getDefiningOp()->setAttr(nn::kClamps, n.e.builder.getUnitAttr());
  return y;
}

template <typename OpTy> Result<mlir::Value> joined(NodeContext &n, mlir::Value x, mlir::Value y) {
  if constexpr (std::is_same_v<OpTy, nn::AddOp>)
    return n.e.binary<OpTy>(x, y);
  else
    return bounded<OpTy>(n, x, y, boundsByNumbers(n.node, false));
}

/// Max, Min, Sum, Mean over any number of inputs.
template <typename OpTy, FoldedBinary op> Status importVariadic(NodeContext &n) {
  MAESTRO_ASSIGN(ImportedValue * first, n.value(0));
  ImportedValue result = *first;
  for (int i = 1; i < n.inputCount(); ++i) {
    MAESTRO_TRY(checkSameType(n, 0, i));
    const FoldedTensor *next = n.folded(i);
    std::optional<FoldedTensor> known;
    if (result.folded && next)
      known = fold(op, *result.folded, *next);
    if (known) {
      result = ImportedValue::of(std::move(*known));
      continue;
    }
    if (i == 1) {
      MAESTRO_ASSIGN(result.tensor, n.tensor(0));
    } else if (!result.tensor) {
      result.tensor = n.e.materialize(*result.folded);
    }
    MAESTRO_ASSIGN(mlir::Value y, n.tensor(i));
    MAESTRO_ASSIGN(mlir::Value both, joined<OpTy>(n, result.tensor, y));
    result = ImportedValue::of(both);
  }
  return n.set(0, std::move(result));
}

Status importMean(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value sum, n.tensor(0));
  for (int i = 1; i < n.inputCount(); ++i) {
    MAESTRO_ASSIGN(mlir::Value x, n.tensor(i));
    MAESTRO_ASSIGN(sum, n.e.binary<nn::AddOp>(sum, x));
  }
  mlir::Value count = n.e.scalar(n.inputCount(), Emitter::dtypeOf(sum));
  return n.set(0, n.e.binary<nn::DivOp>(sum, count));
}

Status importWhere(NodeContext &n) {
  MAESTRO_TRY(checkSameType(n, 1, 2));
  const FoldedTensor *condition = n.folded(0), *onTrue = n.folded(1), *onFalse = n.folded(2);
  if (condition && onTrue && onFalse)
    if (auto result = foldWhere(*condition, *onTrue, *onFalse))
      return n.set(0, std::move(*result));
  MAESTRO_ASSIGN(mlir::Value c, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(1));
  MAESTRO_ASSIGN(mlir::Value y, n.tensor(2));
  MAESTRO_ASSIGN(Shape shape, n.e.broadcast(Emitter::shapeOf(x), Emitter::shapeOf(y)));
  MAESTRO_ASSIGN(shape, n.e.broadcast(Emitter::shapeOf(c), shape));
  return n.set(0, n.e.emit<nn::WhereOp>(c, x, y));
}

/// Whether a cast to half precision rounds. It is an operator then, which the widening takes away.
bool rounds(const FoldedTensor &from, const FoldedTensor &to) {
  for (int64_t i = 0; i < from.size(); ++i)
    if (from.asDouble(i) != to.asDouble(i))
      return true;
  return false;
}

Status castTo(NodeContext &n, DType dtype) {
  if (const FoldedTensor *x = n.folded(0))
    if (auto result = foldCast(*x, dtype);
        result && !(isHalfPrecision(dtype) && willWiden(n.state.function) && rounds(*x, *result)))
      return n.set(0, std::move(*result));
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  return n.set(0, n.e.cast(x, dtype));
}

Status importCast(NodeContext &n) {
  auto to = static_cast<int32_t>(n.intAttribute("to", 0));
  auto dtype = dtypeFromOnnx(to);
  if (!dtype)
    return Status::invalidInput(fmt::format("casts to {}, which is not supported", onnxTypeName(to)));
  return castTo(n, *dtype);
}

Status importCastLike(NodeContext &n) {
  MAESTRO_ASSIGN(DType dtype, n.dtype(1));
  return castTo(n, dtype);
}

/// PyTorch's detach() is an Identity, too; only the call that it came from tells.
Status importIdentity(NodeContext &n) {
  MAESTRO_ASSIGN(ImportedValue * value, n.value(0));
  if (value->tensor && isFloat(Emitter::dtypeOf(value->tensor)) &&
      fxNode(n.node).find("target=torch.ops.aten.detach.") != std::string_view::npos) {
    MAESTRO_ASSIGN(mlir::Value detached, n.e.emit<nn::DetachOp>(value->tensor));
    return n.set(0, detached);
  }
  return n.set(0, ImportedValue(*value));
}

Status importGelu(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  std::string approximate = n.textAttribute("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return Status::invalidInput(fmt::format("approximate '{}' is neither none nor tanh", approximate));
  return n.set(0, n.e.emit<nn::GeluOp>(x, llvm::StringRef(approximate)));
}

Status importIsInf(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value infinite, n.e.emit<nn::IsInfOp>(x));
  bool positive = n.intAttribute("detect_positive", 1) != 0, negative = n.intAttribute("detect_negative", 1) != 0;
  if (positive && negative)
    return n.set(0, infinite);
  mlir::Value zero = n.e.scalar(0, Emitter::dtypeOf(x));
  if (!positive && !negative)
    return n.set(0, n.e.fill(0, Emitter::shapeOf(x), DType::Bool));
  MAESTRO_ASSIGN(mlir::Value side, positive ? n.e.emit<nn::GreaterOp>(x, zero) : n.e.emit<nn::LessOp>(x, zero));
  return n.set(0, n.e.emit<nn::AndOp>(infinite, side));
}

Result<mlir::Value> clipped(NodeContext &n, mlir::Value x, double low, double high) {
  DType dtype = Emitter::dtypeOf(x);
  MAESTRO_ASSIGN(mlir::Value y, bounded<nn::MaximumOp>(n, x, n.e.scalar(low, dtype), true));
  return bounded<nn::MinimumOp>(n, y, n.e.scalar(high, dtype), true);
}

Result<mlir::Value> hardSigmoid(NodeContext &n, mlir::Value x, double alpha, double beta) {
  MAESTRO_ASSIGN(mlir::Value y, n.e.scaled(x, alpha));
  MAESTRO_ASSIGN(y, n.e.emit<nn::AddOp>(y, n.e.scalar(beta, Emitter::dtypeOf(x))));
  return clipped(n, y, 0, 1);
}

Status importHardSigmoid(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  return n.set(0, hardSigmoid(n, x, n.floatAttribute("alpha", 0.2f), n.floatAttribute("beta", 0.5)));
}

Status importHardSwish(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value x, n.tensor(0));
  MAESTRO_ASSIGN(mlir::Value gate, hardSigmoid(n, x, 1.0 / 6, 0.5));
  return n.set(0, n.e.emit<nn::MulOp>(x, gate));
}

/// Bounds are attributes before version 11, inputs since.
Status importClip(NodeContext &n) {
  MAESTRO_ASSIGN(mlir::Value y, n.tensor(0));
  bool clamps = boundsByNumbers(n.node, true);
  if (n.has(1)) {
    MAESTRO_ASSIGN(mlir::Value low, n.tensor(1));
    MAESTRO_ASSIGN(y, bounded<nn::MaximumOp>(n, y, low, clamps));
  }
  if (n.has(2)) {
    MAESTRO_ASSIGN(mlir::Value high, n.tensor(2));
    MAESTRO_ASSIGN(y, bounded<nn::MinimumOp>(n, y, high, clamps));
  }
  return n.set(0, y);
}

} // namespace

std::span<const OpEntry> elementwiseOps() {
  using B = FoldedBinary;
  using U = FoldedUnary;
  static constexpr OpEntry kOps[] = {
      {"Abs", 6, importFoldedUnary<nn::AbsOp, U::Abs>},
      {"Acos", 7, importUnary<nn::AcosOp>},
      {"Add", 7, importBinary<nn::AddOp, B::Add>},
      {"And", 7, importBinary<nn::AndOp, B::And>},
      {"Asin", 7, importUnary<nn::AsinOp>},
      {"Atan", 7, importUnary<nn::AtanOp>},
      {"Cast", 6, importCast},
      {"CastLike", 15, importCastLike},
      {"Ceil", 6, importFoldedUnary<nn::CeilOp, U::Ceil>},
      {"Clip", 11, importClip},
      {"Cos", 7, importUnary<nn::CosOp>},
      {"Div", 7, importBinary<nn::DivOp, B::Div>},
      {"Equal", 7, importBinary<nn::EqualOp, B::Equal>},
      {"Erf", 9, importUnary<nn::ErfOp>},
      {"Exp", 6, importFoldedUnary<nn::ExpOp, U::Exp>},
      {"Floor", 6, importFoldedUnary<nn::FloorOp, U::Floor>},
      {"Gelu", 20, importGelu},
      {"Greater", 7, importBinary<nn::GreaterOp, B::Greater>},
      {"GreaterOrEqual", 12, importBinary<nn::GreaterEqualOp, B::GreaterEqual>},
      {"HardSigmoid", 6, importHardSigmoid},
      {"HardSwish", 14, importHardSwish},
      {"Identity", 1, importIdentity},
      {"IsInf", 10, importIsInf},
      {"IsNaN", 9, importUnary<nn::IsNaNOp>},
      {"Less", 7, importBinary<nn::LessOp, B::Less>},
      {"LessOrEqual", 12, importBinary<nn::LessEqualOp, B::LessEqual>},
      {"Log", 6, importFoldedUnary<nn::LogOp, U::Log>},
      {"Max", 8, importVariadic<nn::MaximumOp, B::Max>},
      {"Mean", 8, importMean},
      {"Min", 8, importVariadic<nn::MinimumOp, B::Min>},
      {"Mod", 10, importMod},
      {"Mul", 7, importBinary<nn::MulOp, B::Mul>},
      {"Neg", 6, importFoldedUnary<nn::NegOp, U::Neg>},
      {"Not", 1, importFoldedUnary<nn::NotOp, U::Not>},
      {"Or", 7, importBinary<nn::OrOp, B::Or>},
      {"Pow", 7, importPow},
      {"Reciprocal", 6, importFoldedUnary<nn::ReciprocalOp, U::Reciprocal>},
      {"Relu", 6, importUnary<nn::ReluOp>},
      {"Round", 11, importFoldedUnary<nn::RoundOp, U::Round>},
      {"Sigmoid", 6, importUnary<nn::SigmoidOp>},
      {"Sign", 9, importFoldedUnary<nn::SignOp, U::Sign>},
      {"Sin", 7, importUnary<nn::SinOp>},
      {"Softplus", 1, importUnary<nn::SoftplusOp>},
      {"Sqrt", 6, importFoldedUnary<nn::SqrtOp, U::Sqrt>},
      {"Sub", 7, importBinary<nn::SubOp, B::Sub>},
      {"Sum", 8, importVariadic<nn::AddOp, B::Add>},
      {"Tanh", 6, importUnary<nn::TanhOp>},
      {"Where", 9, importWhere},
      {"Xor", 7, importBinary<nn::XorOp, B::Xor>},
  };
  return kOps;
}

} // namespace maestro::planner
