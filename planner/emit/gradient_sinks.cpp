// How a parameter's gradient reaches its memory.
#include "planner/emit/lowering.h"

#include "passes/attributes.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {

using mlir::Operation;
using mlir::Value;

/// Every result of @backward and @weight_gradient that is no loss, leaves over no edge and is not saved is a
/// parameter's gradient.
Status Lowering::sinkGradients(mlir::func::FuncOp function) {
  for (mlir::OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    if (sentOver(function, number) || function.getResultAttr(number, attributes::kSaved) ||
        function.getResultAttr(number, attributes::kLoss))
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

/// The calls that add `value` into the gradients that want it, wherever it comes from: computed just now, given to the
/// function, or lying there already (a constant, a view of another value).
void Lowering::addSinks(Value value, Calls &calls) {
  auto found = sinks.find(value);
  if (found == sinks.end())
    return;
  for (const Sink &sink : found->second) {
    writtenGradients.insert(sink.parameter);
    if (sink.direct)
      continue;
    PendingCall call;
    call.kernel = "add_into";
    View source = view(value);
    call.inputs.push_back(source);
    call.outputs.push_back(View{parameters.gradient(sink.parameter), source.shape, DType::F32});
    calls.push_back(std::move(call));
  }
  sinks.erase(found);
}

/// Every gradient that the function returns has been added to its memory.
Status Lowering::checkSinks(mlir::func::FuncOp function) const {
  for (const auto &[value, left] : sinks)
    if (!left.empty())
      return Status::internal(fmt::format("@{} returns the gradient of '{}', and no call writes it",
                                          function.getName().str(), input.parameters[left.front().parameter].name));
  return Status();
}

/// A stage may hold a parameter whose gradient others compute: it adds nothing, and says so.
void Lowering::addZeroGradients(Calls &backward) {
  for (uint32_t p = 0; p < input.parameters.size(); ++p) {
    if (parameters.gradient(p) == plan::kNone || writtenGradients.contains(p))
      continue;
    PendingCall call;
    call.kernel = "fill";
    call.attributes.push_back(plan::intsAttribute("accumulate", {1}));
    call.attributes.push_back(plan::floatsAttribute("value", {0}));
    call.outputs.push_back(View{parameters.gradient(p), tables.constants(input.parameters[p].shape), DType::F32});
    backward.push_back(std::move(call));
  }
}

} // namespace maestro::planner
