#include "planner/import/half_precision.h"

#include "passes/attributes.h"
#include "planner/import/metadata.h"
#include "planner/import/parameter_info.h"
#include "planner/import/symbolic_value.h"

#include "mlir/IR/Builders.h"

#include <cmath>
#include <cstdlib>
#include <set>

namespace maestro::planner {
namespace {

/// The element type that asks for the rewriting: that of the first 16-bit parameter.
std::optional<DType> halfPrecisionOf(mlir::func::FuncOp function) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    std::optional<ParameterInfo> info = parameterInfo(function, i);
    nn::TensorType type = nn::typeOf(function.getArgument(i));
    if (info && info->kind == ParameterKind::Parameter && isHalfPrecision(type))
      return nn::dtypeOf(type.getElementType());
  }
  return std::nullopt;
}

mlir::ElementsAttr widenedValues(mlir::ElementsAttr values, mlir::Type f32) {
  auto narrow = mlir::cast<mlir::DenseFPElementsAttr>(values);
  return narrow.mapValues(f32, [](llvm::APFloat value) {
    bool losesInfo = false;
    value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    return value.bitcastToAPInt();
  });
}

void widenArgument(mlir::func::FuncOp function, unsigned number) {
  mlir::BlockArgument argument = function.getArgument(number);
  nn::TensorType wide = widened(nn::typeOf(argument));
  if (!function.getArgAttr(number, attributes::kParameter))
    return argument.setType(wide);
  if (argument.use_empty())
    return;
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(&function.front());
  mlir::Value cast = nn::CastOp::create(builder, argument.getLoc(), wide, argument);
  argument.replaceAllUsesExcept(cast, cast.getDefiningOp());
}

void widenOperation(mlir::Operation &op) {
  if (auto constant = mlir::dyn_cast<nn::ConstantOp>(op); constant && isHalfPrecision(nn::typeOf(constant.getResult())))
    constant.setValueAttr(widenedValues(constant.getValue(), mlir::Float32Type::get(op.getContext())));
  for (mlir::Value result : op.getResults())
    result.setType(widened(nn::typeOf(result)));
  auto cast = mlir::dyn_cast<nn::CastOp>(op);
  if (cast && cast.getX().getType() == cast.getY().getType()) {
    cast.getY().replaceAllUsesWith(cast.getX());
    cast.erase();
  }
}

/// The numbers in a call's text behind its target.
std::vector<double> numbersIn(std::string_view text) {
  std::vector<double> numbers;
  size_t begin = text.find("](args = (");
  std::string rest(begin == std::string_view::npos ? "" : text.substr(begin + 2));
  for (size_t at = 1; at < rest.size(); ++at) {
    bool begins = std::string_view(" ([,").find(rest[at - 1]) != std::string_view::npos;
    char *end = nullptr;
    if (double value = begins ? std::strtod(rest.c_str() + at, &end) : 0;
        end && end != rest.c_str() + at && std::isfinite(value))
      numbers.push_back(value);
  }
  return numbers;
}

/// The number of the call, of which `rounded` is what `type` holds; nothing where none or several
/// are rounded so.
std::optional<double> beforeRounding(double rounded, DType type, std::string_view fxNode,
                                     const std::vector<int64_t> &headSizes) {
  std::set<double> found;
  bool isAttention = fxTarget(fxNode).find("scaled_dot_product") != std::string_view::npos;
  auto consider = [&](double number) {
    if (roundTo(type, number) == rounded)
      found.insert(number);
    if (isAttention && number > 0 &&
        (roundTo(type, std::sqrt(number)) == rounded || roundTo(type, std::sqrt(roundTo(type, number))) == rounded))
      found.insert(std::sqrt(number));
  };
  for (double number : numbersIn(fxNode))
    consider(number);
  for (int64_t size : isAttention &&found.empty() ? headSizes : std::vector<int64_t>())
    if (size > 0)
      consider(1 / std::sqrt(static_cast<double>(size)));
  return found.size() == 1 ? std::optional(*found.begin()) : std::nullopt;
}

/// Few bits: halves, small integers, infinities; what was rounded has more.
bool looksExact(double value) {
  int exponent = 0;
  double fraction = std::ldexp(std::frexp(value, &exponent), 4);
  return !std::isfinite(value) || fraction == std::trunc(fraction);
}

constexpr llvm::StringLiteral kWidening = "nn.widening"; ///< Of a function while it is imported.

} // namespace

bool willWiden(mlir::func::FuncOp function) { return function->hasAttr(kWidening); }
void markWidening(mlir::func::FuncOp function) {
  function->setAttr(kWidening, mlir::UnitAttr::get(function.getContext()));
}

void restoreRounded(ImportedValue &value, const std::vector<const onnx::NodeProto *> &readers,
                    const std::vector<int64_t> &headSizes, mlir::func::FuncOp function, Emitter &emitter) {
  if (!willWiden(function) || !value.folded || !isHalfPrecision(value.folded->dtype) || value.folded->size() != 1 ||
      readers.empty())
    return;
  DType dtype = value.folded->dtype;
  std::optional<double> rounded = value.folded->asDouble(0), exact;
  if (!rounded || looksExact(*rounded))
    return;
  for (const onnx::NodeProto *reader : readers) {
    std::optional<double> own = beforeRounding(*rounded, dtype, fxNode(*reader), headSizes);
    if (!own || (exact && *exact != *own))
      return;
    exact = own;
  }
  FoldedTensor wide{DType::F32, value.folded->shape, {*exact}};
  value = ImportedValue::of(emitter.cast(emitter.materialize(wide), dtype));
}

std::vector<nn::ConstantOp> roundedScalars(mlir::func::FuncOp function) {
  std::vector<nn::ConstantOp> found;
  for (auto constant : function.front().getOps<nn::ConstantOp>()) {
    auto elements = mlir::dyn_cast<mlir::DenseFPElementsAttr>(constant.getValue());
    if (!elements || elements.getNumElements() != 1 || !isHalfPrecision(nn::typeOf(constant.getResult())))
      continue;
    llvm::APFloat number = *elements.begin();
    bool losesInfo = false;
    number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    if (!looksExact(number.convertToDouble()))
      found.push_back(constant);
  }
  return found;
}

bool isHalfPrecision(nn::TensorType type) { return type.getElementType().isBF16() || type.getElementType().isF16(); }

nn::TensorType widened(nn::TensorType type) {
  if (!isHalfPrecision(type))
    return type;
  return nn::TensorType::get(type.getContext(), type.getShape(), mlir::Float32Type::get(type.getContext()));
}

std::optional<DType> widenHalfPrecision(mlir::func::FuncOp function) {
  std::optional<DType> found = halfPrecisionOf(function);
  function->removeAttr(kWidening);
  if (!found)
    return std::nullopt;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (isHalfPrecision(nn::typeOf(function.getArgument(i))))
      widenArgument(function, i);
  for (mlir::Operation &op : llvm::make_early_inc_range(function.front().without_terminator()))
    widenOperation(op);
  mlir::Operation *terminator = function.front().getTerminator();
  function.setType(mlir::FunctionType::get(function.getContext(), function.front().getArgumentTypes(),
                                           llvm::to_vector(terminator->getOperandTypes())));
  return found;
}

} // namespace maestro::planner
