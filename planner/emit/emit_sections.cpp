// Sections, their stages, the edges between them, and who runs what where.
#include "planner/emit/emitter.h"

#include "base/recompute.h"
#include "cost_models/in_flight.h"
#include "ir/nn/nn.h"
#include "passes/attributes.h"
#include "passes/outline_sections.h"
#include "planner/emit/cost_polynomial.h"
#include "planner/emit/dim_table.h"

#include <algorithm>
#include <filesystem>
#include <set>

namespace maestro::planner {

namespace fb = plan::fb;

void PlanEmitter::addSections() {
  mlir::ModuleOp module = input.sections;
  for (auto op : module.getOps<section::SectionOp>()) {
    std::string name = op.getSectionName().str();
    auto found =
        std::find_if(plan.sections.begin(), plan.sections.end(), [&](const auto &s) { return s->name == name; });
    Stage stage{op, static_cast<uint32_t>(found - plan.sections.begin()), &input.layouts.at(name), {}, 1};
    std::vector<std::string> activeDims;
    if (auto active = op.getActiveDims())
      for (mlir::Attribute symbol : *active)
        activeDims.push_back(mlir::cast<mlir::StringAttr>(symbol).getValue().str());
    stage.limits = limitsOf(*input.graph, *stage.layout, activeDims, input.workload->train.globalBatch);
    if (found == plan.sections.end()) {
      addSection(op, name, stage);
      emitted.presence.push_back(stage.limits.presence);
    }
    if (op.getTrains())
      plan.sections[stage.section]->trains = true;
    addUnpadded(op, *plan.sections[stage.section]);
    if (auto chunks = op.getBody()->getAttrOfType<mlir::IntegerAttr>(attributes::kLossChunks))
      plan.sections[stage.section]->layout->loss_chunks = static_cast<uint32_t>(chunks.getInt());
    if (op.getBody()->hasAttr(attributes::kSplitBackward))
      ++plan.sections[stage.section]->layout->split_backward;
    stages.push_back(stage);
  }
  plan.no_synthetic = input.graph->noSynthetic;
  plan.name = std::filesystem::path(input.workload->path).stem().string();
  if (plan.name.empty())
    plan.name = input.workload->components.front().name;
  plan.producer = "maestro-plan " MAESTRO_VERSION;
}

/// The unpadded dims that the tensors of a section's stage have.
void PlanEmitter::addUnpadded(section::SectionOp op, fb::SectionT &section) const {
  std::set<std::string> found;
  auto add = [&](mlir::Type type) {
    if (auto tensor = mlir::dyn_cast<nn::TensorType>(type))
      for (const DimExpr &dim : tensor.getShape())
        for (const std::string &symbol : dim.symbols())
          found.insert(symbol);
  };
  op.getBody().walk([&](mlir::func::FuncOp function) {
    llvm::for_each(function.getArgumentTypes(), add);
    function.walk([&](mlir::Operation *each) { llvm::for_each(each->getResultTypes(), add); });
  });
  for (const GraphDim &dim : input.graph->dims) {
    uint32_t symbol = builder.symbolIndex(dim.name);
    bool isThere = std::find(section.unpadded.begin(), section.unpadded.end(), symbol) != section.unpadded.end();
    if (dim.unpadded && found.count(dim.name) && !isThere)
      section.unpadded.push_back(symbol);
  }
}

void PlanEmitter::addSection(section::SectionOp op, const std::string &name, const Stage &stage) {
  const SectionLayout &layout = *stage.layout;
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
  if (auto recompute = op.getBody()->getAttrOfType<mlir::StringAttr>(attributes::kRecompute)) {
    section->layout->recompute = true;
    section->layout->full_recompute = recomputeFromName(recompute.getValue()) == Recompute::Full;
    if (auto lighter = op.getBody()->getAttrOfType<mlir::IntegerAttr>(attributes::kLighterLayers))
      section->layout->lighter_layers = static_cast<uint32_t>(lighter.getInt());
    section->layout->lighter_evenly = op.getBody()->hasAttr(attributes::kLighterEvenly);
  }
  section->micro_batch_samples = stage.limits.samples;
  if (auto active = op.getActiveDims())
    for (mlir::Attribute symbol : *active)
      section->active.push_back(builder.symbolIndex(mlir::cast<mlir::StringAttr>(symbol).getValue()));
  plan.sections.push_back(std::move(section));
}

size_t PlanEmitter::stageNamed(llvm::StringRef name) const {
  for (size_t s = 0; s < stages.size(); ++s) {
    section::SectionOp op = stages[s].op;
    if (op.getName() == name)
      return s;
  }
  return stages.size();
}

/// "bf16 [batch, seq, 256]"
static std::string typePhrase(nn::TensorType type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << name(*nn::dtypeOf(type.getElementType())) << " [";
  llvm::interleaveComma(type.getShape(), stream, [&](const DimExpr &dim) { stream << dim.str(); });
  stream << "]";
  return text;
}

/// Edges, and from them how many micro-batches each stage has in flight.
void PlanEmitter::addEdges() {
  mlir::ModuleOp module = input.sections;
  std::vector<section::EdgeOp> ops(module.getOps<section::EdgeOp>().begin(), module.getOps<section::EdgeOp>().end());
  std::vector<cost_models::StageFlow> stageFlows;
  for (const Stage &stage : stages)
    stageFlows.push_back({stage.section, stage.limits.samples, static_cast<uint32_t>(stage.layout->replicas()),
                          static_cast<uint32_t>(stage.layout->moreInFlight), stage.limits.presence});
  std::vector<cost_models::EdgeFlow> edgeFlows;
  for (section::EdgeOp op : ops)
    edgeFlows.push_back({static_cast<uint32_t>(stageNamed(op.getProducer())),
                         static_cast<uint32_t>(stageNamed(op.getConsumer())), op.getGradient()});
  cost_models::InFlight limits =
      cost_models::microBatchesInFlight(stageFlows, edgeFlows, input.workload->train.globalBatch);
  for (size_t s = 0; s < stages.size(); ++s)
    stages[s].slots = std::max(limits.slots[s], input.leastSlots);
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
    cost_models::CommunicationCost time = transferCost(producer, consumer);
    CostPolynomial bytes, cost;
    addTerms(bytes, type.getByteSize(), 1, producer.limits.full(), builder);
    for (const auto &[symbols, value] : bytes)
      cost[symbols] = value * time.secondsPerByte * kPicoseconds;
    cost[{}] += time.latency.value * kPicoseconds;
    edge->cost = toTerms(cost);
    if (auto reason = op->getAttrOfType<mlir::StringAttr>(kEdgeReason))
      plan.decisions.push_back(decisionTable({"edge " + edge->name, typePhrase(type), reason.str(), true}));
    emitted.edgeBytes.emplace_back();
    for (const auto &[symbols, value] : bytes)
      emitted.edgeBytes.back().push_back({value, symbols});
    edgeIndex[edge->name] = plan.edges.size();
    depths[edge->name] = limits.depth[plan.edges.size()];
    depths[edge->name + "'"] = limits.gradientDepth[plan.edges.size()];
    plan.edges.push_back(std::move(edge));
  }
}

/// As the simulator prices it: between the stages of a replica, or any replica of one section and any of another.
cost_models::CommunicationCost PlanEmitter::transferCost(const Stage &producer, const Stage &consumer) const {
  const SectionLayout &from = *producer.layout, &to = *consumer.layout;
  if (producer.section != consumer.section)
    return cost_models::transferCost(input.machine, devicesOf(producer), devicesOf(consumer));
  cost_models::CommunicationCost widest;
  for (size_t replica = 0; replica < from.replicas(); ++replica)
    widest = wider(widest, cost_models::transferCost(input.machine, from.group(replica, stageNumber(producer)),
                                                     to.group(replica, stageNumber(consumer))));
  return widest;
}

uint32_t PlanEmitter::stageNumber(const Stage &stage) {
  section::SectionOp op = stage.op;
  return static_cast<uint32_t>(op.getStage());
}

/// Which stages hold each parameter; one that none reads stays with a section of its component, to be saved.
void PlanEmitter::findHolders() {
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

size_t PlanEmitter::homeOf(const std::string &component) {
  for (size_t s = 0; s < stages.size(); ++s)
    for (mlir::Attribute name : stages[s].op.getComponents())
      if (mlir::cast<mlir::StringAttr>(name).getValue() == component)
        return s;
  return 0;
}

/// Once for each group of ranks that share stations.
void PlanEmitter::addCommunicator(const std::vector<uint32_t> &ranks) {
  auto isKnown = [&](const auto &communicator) { return communicator->ranks == ranks; };
  if (ranks.size() < 2 || std::any_of(plan.communicators.rbegin(), plan.communicators.rend(), isKnown))
    return;
  auto communicator = std::make_unique<fb::CommunicatorT>();
  communicator->axis = fb::MeshAxis::Tensor;
  communicator->ranks = ranks;
  plan.communicators.push_back(std::move(communicator));
}

void PlanEmitter::addStations() {
  for (uint32_t device = 0; device < input.machine.devices; ++device) {
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
      addCommunicator(station->ranks);
      plan.stations.push_back(std::move(station));
    }
  }
}

} // namespace maestro::planner
