#include "planner/emit/operator_works.h"

#include "ir/nn/nn.h"

namespace maestro::planner {

OperatorKey::OperatorKey(mlir::Operation &op) {
  parts = {op.getName().getAsOpaquePointer(), op.getAttrDictionary().getAsOpaquePointer()};
  for (mlir::Value operand : op.getOperands())
    parts.push_back(operand.getType().getAsOpaquePointer());
  for (mlir::Value result : op.getResults())
    parts.push_back(result.getType().getAsOpaquePointer());
}

const OperatorWork &OperatorWorks::of(mlir::Operation &op) {
  auto [found, isNew] = known.try_emplace(OperatorKey(op));
  if (auto cost = mlir::dyn_cast<nn::CostOpInterface>(op); isNew && cost)
    found->second = {cost.getFlops(), cost.getBytes()};
  return found->second;
}

} // namespace maestro::planner
