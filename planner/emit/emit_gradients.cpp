// Which gradients several stations hold parts of, and add up.
#include "planner/emit/emitter.h"

#include "passes/attributes.h"

#include <fmt/format.h>

namespace maestro::planner {

namespace fb = plan::fb;

/// Replicas of what --maestro-shard found `partial` over the data, and the stages and sections that share a weight.
Status PlanEmitter::addGradientSums() {
  std::map<std::vector<uint32_t>, size_t> bySet;
  for (uint32_t p = 0; p < input.graph->parameters.size(); ++p) {
    std::vector<uint32_t> stations;
    for (uint32_t s = 0; input.graph->parameters[p].trainable && s < plan.stations.size(); ++s)
      if (llvm::is_contained(holders[p], plan.stations[s]->executable))
        stations.push_back(s);
    if (stations.size() < 2)
      continue;
    MAESTRO_TRY(checkSum(p, stations.size()));
    auto [found, isNew] = bySet.try_emplace(stations, plan.gradient_sums.size());
    if (isNew) {
      plan.gradient_sums.push_back(std::make_unique<fb::GradientSumT>());
      fb::GradientSumT &sum = *plan.gradient_sums.back();
      sum.stations = std::move(stations);
      sum.staging_bytes = sumStagingBytes();
      if (std::vector<uint32_t> degrees = sumDegrees(holders[p]); degrees.size() > 1)
        sum.degrees = std::move(degrees);
    }
    plan.gradient_sums[found->second]->parameters.push_back(p);
  }
  return Status();
}

/// What the gradient is over replicas, as the rules of the operators say; empty where the stage computes none of it.
static std::string stateOverData(mlir::ModuleOp body, const std::string &parameter) {
  for (auto function : body.getOps<mlir::func::FuncOp>())
    for (unsigned i = 0; function.getName() != attributes::kStepFunction && i < function.getNumResults(); ++i)
      if (auto name = function.getResultAttrOfType<mlir::StringAttr>(i, attributes::kGradient);
          name && name.getValue() == parameter)
        if (auto state = function.getResultAttrOfType<mlir::StringAttr>(i, attributes::kOverData))
          return state.getValue().str();
  return "";
}

/// Each holder's gradient is a part of the sum, and lies as the others' do.
Status PlanEmitter::checkSum(uint32_t parameter, size_t stations) const {
  const std::string &name = input.graph->parameters[parameter].fullName;
  const Stage &first = stages[holders[parameter].front()];
  for (size_t holder : holders[parameter]) {
    section::SectionOp op = stages[holder].op;
    const std::string &section = plan.sections[stages[holder].section]->name;
    std::string state = stateOverData(op.getBody(), name);
    if (!state.empty() && state != "partial")
      return Status::invalidInput(
          fmt::format("the gradient of '{}' is held by {} stations and cannot be added up: over replicas it "
                      "is {}; pin section '{}' to dp=1 and one stage",
                      name, stations, state, section));
    if (stages[holder].layout->tensor != first.layout->tensor)
      return Status::invalidInput(fmt::format(
          "parameter '{}' belongs to sections '{}' and '{}', whose tensor degrees are {} and {}; "
          "pin them to the same degree",
          name, plan.sections[first.section]->name, section, first.layout->tensor, stages[holder].layout->tensor));
  }
  return Status();
}

} // namespace maestro::planner
