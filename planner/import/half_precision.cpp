#include "planner/import/half_precision.h"

#include "passes/attributes.h"
#include "planner/import/parameter_info.h"

#include "mlir/IR/Builders.h"

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

} // namespace

bool isHalfPrecision(nn::TensorType type) { return type.getElementType().isBF16() || type.getElementType().isF16(); }

nn::TensorType widened(nn::TensorType type) {
  if (!isHalfPrecision(type))
    return type;
  return nn::TensorType::get(type.getContext(), type.getShape(), mlir::Float32Type::get(type.getContext()));
}

std::optional<DType> widenHalfPrecision(mlir::func::FuncOp function) {
  std::optional<DType> found = halfPrecisionOf(function);
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
