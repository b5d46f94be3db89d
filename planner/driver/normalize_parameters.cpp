#include "planner/driver/normalize_parameters.h"

#include "ir/nn/nn.h"
#include "passes/attributes.h"
#include "planner/import/parameter_info.h"

#include "mlir/IR/Builders.h"

namespace maestro::planner {
namespace {

/// Changes the argument's type and lets `convert` rebuild the old value from it for all users.
template <typename Convert>
void retype(mlir::func::FuncOp function, unsigned number, nn::TensorType type, Convert convert) {
  mlir::BlockArgument argument = function.getArgument(number);
  mlir::OpBuilder builder(&function.getBody().front(), function.getBody().front().begin());
  argument.setType(type);
  mlir::Value converted = convert(builder, argument);
  argument.replaceAllUsesExcept(converted, converted.getDefiningOp());
}

} // namespace

Status normalizeParameters(mlir::func::FuncOp graph) {
  for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
    std::optional<ParameterInfo> info = parameterInfo(graph, i);
    if (!info)
      continue;
    auto type = nn::typeOf(graph.getArgument(i));
    mlir::Type element = type.getElementType();
    if (graph.getArgAttr(i, attributes::kTrainable) && (element.isBF16() || element.isF16())) {
      auto wide = nn::TensorType::get(graph.getContext(), type.getShape(), mlir::Float32Type::get(graph.getContext()));
      retype(graph, i, wide, [&](mlir::OpBuilder &builder, mlir::Value value) {
        return nn::CastOp::create(builder, graph.getLoc(), type, value).getResult();
      });
    }
  }
  llvm::SmallVector<mlir::Type> inputs(graph.getBody().front().getArgumentTypes());
  graph.setFunctionType(mlir::FunctionType::get(graph.getContext(), inputs, graph.getFunctionType().getResults()));
  return Status();
}

} // namespace maestro::planner
