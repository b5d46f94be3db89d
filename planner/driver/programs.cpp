#include "planner/driver/programs.h"

#include "base/log.h"
#include "base/nearest.h"
#include "ir/nn/nn.h"
#include "ir/section/section.h"
#include "passes/attributes.h"
#include "passes/chunk_losses.h"
#include "planner/driver/diagnostics.h"
#include "planner/emit/emit_plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace maestro::planner {

Status runPasses(mlir::ModuleOp module, const Workload &workload, std::optional<Phase> startAfter, Phase stopAfter,
                 const PartitionOptions &partition) {
  DiagnosticCollector diagnostics(*module.getContext());
  mlir::PassManager manager(module.getContext());
  PipelineOptions pipeline;
  pipeline.startAfter = startAfter;
  pipeline.stopAfter = stopAfter;
  pipeline.partition = partition;
  for (const ComponentSpec &component : workload.components)
    if (workload.train.precisionFor(component.name) == DType::BF16) {
      pipeline.bf16Components.push_back(component.name);
      if (component.frozen)
        pipeline.bf16Parameters.push_back(component.name);
    }
  buildPipeline(manager, pipeline);
  manager.enableVerifier(!partition.forTrial); // It took an eighth of planning a teacher and student with pins; the
                                               // same passes make what is emitted.
  if (mlir::failed(manager.run(module)))
    return diagnostics.failure(nameOf(pipeline.stopAfter).str());
  return Status();
}

Status checkCuts(const Workload &workload, const GraphSummary &graph) {
  for (const ComponentSpec &component : workload.components) {
    std::set<std::string> modules;
    for (const GraphParameter &parameter : graph.parameters)
      for (size_t dot = parameter.info.name.find('.');
           parameter.component == component.name && dot != std::string::npos;
           dot = parameter.info.name.find('.', dot + 1))
        modules.insert(parameter.info.name.substr(0, dot));
    for (const std::string &scope : component.cuts)
      if (!modules.count(scope))
        return Status::invalidInput(
            fmt::format("{}: components.{}.cuts: '{}' is no module with parameters{}", component.place, component.name,
                        scope, didYouMean(scope, std::vector<std::string>(modules.begin(), modules.end()))));
  }
  return Status();
}

Status noteUnreached(mlir::ModuleOp programs, GraphSummary &graph, Unreached &unreached) {
  std::set<std::string> withGradient;
  programs.walk([&](mlir::func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto name = function.getResultAttrOfType<mlir::StringAttr>(i, attributes::kGradient))
        withGradient.insert(name.getValue().str());
  });
  size_t reached = 0;
  for (GraphParameter &parameter : graph.parameters) {
    if (parameter.trainable && !withGradient.count(parameter.fullName)) {
      parameter.trainable = false;
      unreached[parameter.component].insert(parameter.info.name);
      logWarning(fmt::format("parameter '{}' gets no gradient: no loss depends on it; it keeps its value",
                             parameter.fullName));
    }
    reached += parameter.trainable;
  }
  if (reached == 0)
    return Status::invalidInput("no loss reaches any trainable parameter; check which components are frozen "
                                "and what the loss reads");
  return Status();
}

std::vector<uint32_t> lossChunksOf(mlir::ModuleOp programs, const std::string &section) {
  std::vector<uint32_t> most;
  for (section::SectionOp op : programs.getOps<section::SectionOp>())
    if (op.getSectionName() == section)
      most = std::max(most, lossChunkCounts(op.getBody()));
  return most;
}

Status checkLossChunks(mlir::ModuleOp programs, const Pins &pins) {
  std::set<std::string> chunked; // Section names, "*" for any.
  for (section::SectionOp op : programs.getOps<section::SectionOp>())
    if (op.getBody()->hasAttr(attributes::kLossChunks))
      chunked.insert({op.getSectionName().str(), "*"});
  for (const auto &[section, own] : pins.all())
    if (own.lossChunks.value_or(1) > 1 && !chunked.count(section))
      return Status::invalidInput(fmt::format(
          "{}: {} no product that is wider than what it multiplies and whose rows, up to their sum, reach losses and "
          "gradients alone; leave the pin out",
          pins.asGiven(section, "loss_chunks"),
          section == "*" ? "there is" : fmt::format("section '{}' has", section)));
  return Status();
}

Status checkSplit(mlir::ModuleOp programs, const SectionFacts &section) {
  std::vector<int64_t> sizes;
  bool splits = section.tensor == 1;
  for (auto op : programs.getOps<section::SectionOp>()) {
    if (op.getSectionName() != section.name)
      continue;
    mlir::ModuleOp body = op.getBody();
    splits |= !splitParametersOf(body).empty();
    if (auto own = body->getAttrOfType<mlir::DenseI64ArrayAttr>(attributes::kIndivisible))
      sizes.insert(sizes.end(), own.asArrayRef().begin(), own.asArrayRef().end());
  }
  if (splits)
    return Status();
  return Status::invalidInput(
      fmt::format("--pin {}.tensor={}: section '{}' has no MLP block that {} devices can share (a product with a "
                  "weight by columns, "
                  "elementwise operators, a product by rows){}; leave the pin out",
                  section.name, section.tensor, section.name, section.tensor,
                  sizes.empty() ? "" : fmt::format("; inner sizes there: {}", fmt::join(sizes, ", "))));
}

} // namespace maestro::planner
