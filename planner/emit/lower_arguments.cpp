// What a function is given: parameters, fields, scalars of the step, what arrives over edges, saved values.
#include "planner/emit/lowering.h"

#include "passes/attributes.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {

namespace fb = plan::fb;
using plan::kNone;

Status Lowering::bindArguments(mlir::func::FuncOp function, std::vector<uint32_t> &fields) {
  for (mlir::BlockArgument argument : function.getArguments())
    MAESTRO_TRY(bindArgument(function, argument, fields));
  return Status();
}

Status Lowering::bindArgument(mlir::func::FuncOp function, mlir::BlockArgument argument,
                              std::vector<uint32_t> &fields) {
  unsigned number = argument.getArgNumber();
  nn::TensorType type = nn::typeOf(argument);
  auto text = [&](llvm::StringRef name) {
    auto attribute = function.getArgAttrOfType<mlir::StringAttr>(number, name);
    return attribute ? attribute.getValue().str() : std::string();
  };
  MAESTRO_ASSIGN(uint64_t bytes, mostBytes(type));
  View bound{kNone, shapeExprs(type), *nn::dtypeOf(type.getElementType())};
  if (std::string name = text(attributes::kParameter); !name.empty()) {
    auto found = std::find_if(input.parameters.begin(), input.parameters.end(),
                              [&](const ParameterSlot &slot) { return slot.name == name; });
    if (found == input.parameters.end())
      return Status::internal("function argument names an unknown parameter: " + name);
    if (bound.shape != tables.constants(found->shape))
      return Status::internal(fmt::format("@{} takes '{}' as {}, and a device holds another part of it",
                                          function.getName().str(), name, nn::shapeText(type.getShape())));
    placed[argument] = parameters.value(found - input.parameters.begin());
  } else if (std::string name = text(attributes::kField); !name.empty()) {
    uint32_t field = input.fields.at(name);
    auto [position, isNew] = fieldStorage.try_emplace(field, kNone);
    if (isNew) {
      position->second = bound.storage = storages.addSlot(bytes);
      bindings.push_back({fb::BindingKind::Field, field, bound});
    }
    placed[argument] = position->second;
    if (!argument.use_empty())
      fields.push_back(field);
  } else if (std::string name = text(attributes::kSpecial); !name.empty()) {
    auto [position, isNew] = specialStorage.try_emplace(name, kNone);
    if (isNew) {
      position->second = bound.storage = storages.addSlot(bytes);
      bindings.push_back({name == "rng_state" ? fb::BindingKind::RandomState : fb::BindingKind::SampleIds, 0, bound});
    }
    placed[argument] = position->second;
  } else if (std::string name = text(attributes::kLossScale); !name.empty()) {
    auto term = function.getArgAttrOfType<mlir::IntegerAttr>(number, attributes::kTerm);
    uint32_t loss = input.losses.at({name, term ? term.getInt() : 0});
    auto [position, isNew] = scaleStorage.try_emplace(loss, kNone);
    if (isNew) {
      position->second = bound.storage = storages.addFixed(fb::RegionKind::Step, bytes);
      bindings.push_back({fb::BindingKind::LossScale, loss, bound});
    }
    placed[argument] = position->second;
  } else if (function.getArgAttr(number, attributes::kEdge) || function.getArgAttr(number, attributes::kEdgeGradient)) {
    bool gradient = !function.getArgAttr(number, attributes::kEdge);
    std::string edge = text(gradient ? attributes::kEdgeGradient : attributes::kEdge);
    placed[argument] = ringStorage(edge, gradient, bound, bytes);
    bool behindForward = function == input.backward || function == input.weightGradient;
    bool held = behindForward && !gradient && !argument.use_empty();
    if (held && std::find(report.heldEdges.begin(), report.heldEdges.end(), edge) == report.heldEdges.end())
      report.heldEdges.push_back(edge);
  } else if (auto number64 = function.getArgAttrOfType<mlir::IntegerAttr>(number, attributes::kSaved)) {
    savedArgument[argument] = root(saved.at(number64.getInt()));
  } else {
    return Status::internal(fmt::format("argument {} of @{} has no meaning", number, function.getName().str()));
  }
  return Status();
}

/// What arrives over an edge lies in a ring of its own.
uint32_t Lowering::ringStorage(const std::string &name, bool gradient, const View &view, uint64_t bytes) {
  uint32_t edge = input.edges.at(name);
  auto [position, isNew] = ringStorages.try_emplace({edge, gradient}, kNone);
  if (!isNew)
    return position->second;
  View bound = view;
  bound.storage = position->second =
      storages.addRing(edge, gradient, bytes, input.depths.at(gradient ? name + "'" : name));
  bindings.push_back({gradient ? fb::BindingKind::EdgeGradientInput : fb::BindingKind::EdgeInput, edge, bound});
  return position->second;
}

} // namespace maestro::planner
