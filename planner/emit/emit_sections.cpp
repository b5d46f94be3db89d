// Sections, their stages, the edges between them, and who runs what where.
#include "planner/emit/emitter.h"

#include "cost_models/in_flight.h"
#include "ir/nn/nn.h"
#include "passes/attributes.h"
#include "planner/emit/cost_polynomial.h"
#include "planner/emit/dim_table.h"

#include <algorithm>
#include <filesystem>

namespace maestro::planner {

namespace fb = plan::fb;

void Emitter::addSections() {
  mlir::ModuleOp module = input.sections;
  for (auto op : module.getOps<section::SectionOp>()) {
    std::string name = op.getSectionName().str();
    auto found = std::find_if(plan.sections.begin(), plan.sections.end(), [&](const auto &s) { return s->name == name; });
    Stage stage{op, static_cast<uint32_t>(found - plan.sections.begin()), &input.layouts.at(name), 1};
    if (found == plan.sections.end())
      addSection(op, name, *stage.layout);
    if (op.getTrains())
      plan.sections[stage.section]->trains = true;
    stages.push_back(stage);
  }
  plan.no_synthetic = input.graph->noSynthetic;
  plan.name = std::filesystem::path(input.workload->path).stem().string();
  if (plan.name.empty())
    plan.name = input.workload->components.front().name;
  plan.producer = "maestro-plan " MAESTRO_VERSION;
}

void Emitter::addSection(section::SectionOp op, const std::string &name, const SectionLayout &layout) {
  auto section = std::make_unique<fb::SectionT>();
  section->name = name;
  for (mlir::Attribute component : op.getComponents())
    for (uint32_t c = 0; c < plan.components.size(); ++c)
      if (plan.components[c]->name == mlir::cast<mlir::StringAttr>(component).getValue())
        section->components.push_back(c);
  section->layout = std::make_unique<fb::LayoutT>();
  section->layout->data_parallel = layout.replicas();
  section->layout->stages = layout.stages;
  section->layout->tensor_parallel = static_cast<uint32_t>(layout.tensor);
  section->micro_batch_samples = layout.microBatch;
  if (auto active = op.getActiveDims())
    for (mlir::Attribute symbol : *active)
      section->active.push_back(builder.symbolIndex(mlir::cast<mlir::StringAttr>(symbol).getValue()));
  plan.sections.push_back(std::move(section));
}

size_t Emitter::stageNamed(llvm::StringRef name) const {
  for (size_t s = 0; s < stages.size(); ++s) {
    section::SectionOp op = stages[s].op;
    if (op.getName() == name)
      return s;
  }
  return stages.size();
}

/// Edges, and from them how many micro-batches each stage has in flight.
void Emitter::addEdges() {
  mlir::ModuleOp module = input.sections;
  std::vector<section::EdgeOp> ops(module.getOps<section::EdgeOp>().begin(), module.getOps<section::EdgeOp>().end());
  std::vector<cost_models::StageFlow> stageFlows;
  for (const Stage &stage : stages)
    stageFlows.push_back({stage.section, stage.layout->microBatch});
  std::vector<cost_models::EdgeFlow> edgeFlows;
  for (section::EdgeOp op : ops)
    edgeFlows.push_back({static_cast<uint32_t>(stageNamed(op.getProducer())),
                         static_cast<uint32_t>(stageNamed(op.getConsumer())), op.getGradient()});
  cost_models::InFlight limits = cost_models::microBatchesInFlight(stageFlows, edgeFlows);
  for (size_t s = 0; s < stages.size(); ++s)
    stages[s].slots = limits.slots[s];
  for (section::EdgeOp op : ops) {
    const Stage &producer = stages[stageNamed(op.getProducer())], &consumer = stages[stageNamed(op.getConsumer())];
    auto edge = std::make_unique<fb::EdgeT>();
    edge->name = op.getName().str();
    edge->producer = producer.section;
    edge->consumer = consumer.section;
    edge->producer_stage = stageNumber(producer);
    edge->consumer_stage = stageNumber(consumer);
    edge->carries_gradient = op.getGradient();
    auto type = mlir::cast<nn::TensorType>(op.getType());
    edge->dtype = static_cast<uint8_t>(*nn::dtypeOf(type.getElementType()));
    for (const DimExpr &dim : type.getShape())
      edge->shape.push_back(toPlan(builder, dim));
    CostPolynomial cost;
    cost[{}] = deviceRates().channelLatencySeconds * 1e12;
    addWork(cost, type.getByteSize(), deviceRates().channelBytesPerSecond, bounds(*producer.layout), builder);
    edge->cost = toTerms(cost);
    edgeIndex[edge->name] = plan.edges.size();
    depths[edge->name] = limits.depth[plan.edges.size()];
    depths[edge->name + "'"] = limits.gradientDepth[plan.edges.size()];
    plan.edges.push_back(std::move(edge));
  }
}

uint32_t Emitter::stageNumber(const Stage &stage) {
  section::SectionOp op = stage.op;
  return static_cast<uint32_t>(op.getStage());
}

/// Which stages hold each parameter; one that none reads stays with a section of its component, to be saved.
void Emitter::findHolders() {
  holders.resize(input.graph->parameters.size());
  for (size_t s = 0; s < stages.size(); ++s)
    for (const std::string &name : parametersOf(stages[s].op.getBody()))
      for (size_t p = 0; p < holders.size(); ++p)
        if (input.graph->parameters[p].fullName == name)
          holders[p].push_back(s);
  for (size_t p = 0; p < holders.size(); ++p)
    if (holders[p].empty())
      holders[p].push_back(homeOf(input.graph->parameters[p].component));
}

size_t Emitter::homeOf(const std::string &component) {
  for (size_t s = 0; s < stages.size(); ++s)
    for (mlir::Attribute name : stages[s].op.getComponents())
      if (mlir::cast<mlir::StringAttr>(name).getValue() == component)
        return s;
  return 0;
}

void Emitter::addStations() {
  for (uint32_t device = 0; device < input.devices; ++device) {
    auto rank = std::make_unique<fb::RankT>();
    rank->device = device;
    rank->threads = input.deviceThreads;
    rank->peak_bytes = emitted.devices[device].peakBytes;
    plan.ranks.push_back(std::move(rank));
  }
  for (uint32_t e = 0; e < plan.executables.size(); ++e) {
    const SectionLayout &layout = *stages[e].layout;
    for (uint32_t replica = 0; replica < layout.replicas(); ++replica) {
      auto station = std::make_unique<fb::StationT>();
      station->executable = e;
      station->replica = replica;
      station->ranks = layout.group(replica, plan.executables[e]->stage);
      plan.stations.push_back(std::move(station));
    }
  }
}

} // namespace maestro::planner
