// How a parameter's gradient reaches its memory.
#include "planner/emit/lowering.h"

#include "passes/attributes.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {

using mlir::Operation;
using mlir::Value;

/// Every result of @backward and @weight_gradient that leaves over no edge and is not saved is a parameter's gradient.
Status Lowering::sinkGradients(mlir::func::FuncOp function) {
  for (mlir::OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    if (sentOver(function, number) || function.getResultAttr(number, attributes::kSaved))
      continue;
    auto name = function.getResultAttrOfType<mlir::StringAttr>(number, attributes::kGradient);
    auto found = std::find_if(input.parameters.begin(), input.parameters.end(),
                              [&](const ParameterSlot &slot) { return name && slot.name == name.getValue(); });
    if (found == input.parameters.end())
      return Status::internal(fmt::format("a result of @{} is no parameter's gradient", function.getName().str()));
    sinkGradient(operand.get(), found - input.parameters.begin(), shapeExprs(nn::typeOf(operand.get())));
  }
  return Status();
}

/// Decides, for a gradient that a program returns, how it reaches the gradient's memory: the kernel
/// that produces it adds there, sums are taken apart, or an add_into follows.
void Lowering::sinkGradient(Value value, uint32_t parameter, std::vector<uint32_t> shape) {
  Operation *producer = value.getDefiningOp();
  if (producer && value.hasOneUse() && !mlir::isa<nn::ConstantOp>(producer)) {
    if (auto reshape = mlir::dyn_cast<nn::ReshapeOp>(producer))
      return sinkGradient(reshape.getX(), parameter, shapeExprs(nn::typeOf(reshape.getX())));
    bool wide = *nn::dtypeOf(nn::typeOf(value).getElementType()) == DType::F32;
    auto sum = mlir::dyn_cast<nn::AddOp>(producer);
    if (sum && wide && sum.getLhs() != sum.getRhs() && sum.getLhs().getType() == value.getType() &&
        sum.getRhs().getType() == value.getType()) {
      sinkGradient(sum.getLhs(), parameter, shape);
      sinkGradient(sum.getRhs(), parameter, shape);
      sinks[value]; // Present and empty: the addition itself is not needed.
      return;
    }
    auto kernel = mlir::dyn_cast<nn::KernelOpInterface>(producer);
    unsigned result = mlir::cast<mlir::OpResult>(value).getResultNumber();
    if (kernel && wide && kernel.canAccumulate(result)) {
      sinks[value].push_back({parameter, shape, true});
      return;
    }
  }
  sinks[value].push_back({parameter, shape, false});
}

/// Calls that add a value into the gradients that want it, right after it was computed.
void Lowering::addSinks(Operation &op, Calls &calls) {
  for (Value result : op.getResults()) {
    auto found = sinks.find(result);
    if (found == sinks.end())
      continue;
    for (const Sink &sink : found->second) {
      if (sink.direct)
        continue;
      PendingCall call;
      call.kernel = "add_into";
      View source = view(result);
      call.inputs.push_back(source);
      call.outputs.push_back(View{parameters.gradient(sink.parameter), source.shape, DType::F32});
      calls.push_back(std::move(call));
    }
  }
}

} // namespace maestro::planner
