// What a function gives: losses, and what leaves over edges.
#include "planner/emit/lowering.h"

#include "passes/attributes.h"

#include <algorithm>

namespace maestro::planner {

namespace fb = plan::fb;
using mlir::Value;
using plan::kNone;

/// What the executor reads after this function's task: counts of @count, sums of the others.
std::vector<Lowering::LossResult> Lowering::lossResults(mlir::func::FuncOp function) const {
  bool counts = function.getName() == attributes::kCountFunction;
  std::vector<LossResult> results;
  for (mlir::OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands()) {
    unsigned number = operand.getOperandNumber();
    auto loss = function.getResultAttrOfType<mlir::StringAttr>(number, attributes::kLoss);
    auto role = function.getResultAttrOfType<mlir::StringAttr>(number, attributes::kRole);
    auto term = function.getResultAttrOfType<mlir::IntegerAttr>(number, attributes::kTerm);
    if (!loss || !role || role.getValue() != (counts ? "count" : "sum"))
      continue;
    results.push_back({operand.get(), counts ? fb::BindingKind::LossCount : fb::BindingKind::LossSum,
                       input.losses.at({loss.getValue().str(), term ? term.getInt() : 0})});
  }
  return results;
}

/// Losses stay in the slot until the executor has read them, what leaves over an edge at its place until it is sent.
/// Where one kernel's result is one of these, the kernel writes there; copyResults() serves the rest (arguments,
/// constants, shared values).
Status Lowering::pinResults(mlir::func::FuncOp function) {
  for (const LossResult &result : lossResults(function)) {
    auto [position, isNew] = lossStorage.try_emplace({result.kind, result.loss}, kNone);
    if (isNew) {
      position->second = storages.addSlot(byteSize(DType::F32));
      bindings.push_back({result.kind, result.loss, View{position->second, {}, DType::F32}});
    }
    Value source = root(result.value);
    if (source.getDefiningOp() && !source.getDefiningOp<nn::ConstantOp>())
      pinned.try_emplace(source, position->second);
  }
  return pinEdges(function);
}

std::optional<std::pair<std::string, bool>> sentOver(mlir::func::FuncOp function, unsigned result) {
  for (bool gradient : {false, true})
    if (auto edge = function.getResultAttrOfType<mlir::StringAttr>(result, gradient ? attributes::kEdgeGradient
                                                                                    : attributes::kEdge))
      return std::pair(edge.getValue().str(), gradient);
  return std::nullopt;
}

/// Whether the function's backward task reads the value, which then outlives its own task.
bool Lowering::isSaved(mlir::func::FuncOp function, Value source) const {
  return llvm::any_of(function.getBody().front().getTerminator()->getOpOperands(), [&](mlir::OpOperand &operand) {
    return function.getResultAttr(operand.getOperandNumber(), attributes::kSaved) && root(operand.get()) == source;
  });
}

Status Lowering::pinEdges(mlir::func::FuncOp function) {
  for (mlir::OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands()) {
    auto sent = sentOver(function, operand.getOperandNumber());
    if (!sent)
      continue;
    uint32_t edge = input.edges.at(sent->first);
    nn::TensorType type = nn::typeOf(operand.get());
    auto [position, isNew] = sentStorage.try_emplace({edge, sent->second}, kNone);
    Value source = root(operand.get());
    bool computed = source.getDefiningOp() && !source.getDefiningOp<nn::ConstantOp>();
    auto other = pinned.find(source);
    bool sentBefore =
        other != pinned.end() && std::any_of(sentStorage.begin(), sentStorage.end(),
                                             [&](const auto &entry) { return entry.second == other->second; });
    if (isNew && computed && sentBefore) {
      position->second = other->second; // One value over two edges.
    } else if (isNew) {
      MAESTRO_ASSIGN(uint64_t bytes, mostBytes(type));
      position->second =
          isSaved(function, source) ? storages.addSlot(bytes) : storages.addFixed(fb::RegionKind::Workspace, bytes);
    }
    if (isNew)
      bindings.push_back({sent->second ? fb::BindingKind::EdgeGradientOutput : fb::BindingKind::EdgeOutput, edge,
                          View{position->second, shapeExprs(type), *nn::dtypeOf(type.getElementType())}});
    if (computed)
      pinned.try_emplace(source, position->second);
  }
  return Status();
}

void Lowering::copyResults(mlir::func::FuncOp function, Calls &calls) {
  auto copy = [&](Value value, uint32_t storage) {
    View source = view(value);
    if (source.storage == storage)
      return;
    PendingCall call;
    call.kernel = "copy";
    call.inputs.push_back(source);
    call.outputs.push_back(View{storage, source.shape, source.dtype});
    calls.push_back(std::move(call));
  };
  for (const LossResult &result : lossResults(function))
    copy(result.value, lossStorage.at({result.kind, result.loss}));
  for (mlir::OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands())
    if (auto sent = sentOver(function, operand.getOperandNumber()))
      copy(operand.get(), sentStorage.at({input.edges.at(sent->first), sent->second}));
}

} // namespace maestro::planner
