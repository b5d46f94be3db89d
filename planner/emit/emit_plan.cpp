#include "planner/emit/emit_plan.h"

#include "cost_models/in_flight.h"
#include "cost_models/cpu_memory.h"
#include "cost_models/roofline.h"
#include "ir/nn/nn.h"
#include "ir/section/section.h"
#include "passes/attributes.h"
#include "planner/emit/dim_table.h"
#include "planner/emit/host_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <thread>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;

int assumedThreads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

/// At most, per set of stations that add up gradients: the default of transport/local/reduction.h.
constexpr uint64_t kStagingBytes = uint64_t{8} << 20;

class Emitter {
public:
  explicit Emitter(const EmitInput &input) : input(input), plan(builder.plan()) {}

  Result<EmittedPlan> run() {
    declareSymbols();
    addComponents();
    addFields();
    MAESTRO_TRY(addParameters());
    addLosses();
    addTraining();
    addMachine();
    addSections();
    addEdges();
    findHolders();
    emitted.devices.resize(input.devices);
    for (size_t s = 0; s < stages.size(); ++s)
      MAESTRO_TRY(addExecutable(s));
    addStations();
    addPrediction();
    addDecisions();
    plan.workload_hash = workloadHash();
    bool fits = std::all_of(emitted.devices.begin(), emitted.devices.end(),
                            [&](const DeviceMemory &device) { return device.peakBytes <= input.deviceBytes; });
    if (fits) {
      MAESTRO_ASSIGN(emitted.bytes, builder.finish());
    }
    return std::move(emitted);
  }

private:
  void declareSymbols() {
    for (const GraphDim &dim : input.graph->dims)
      builder.symbol(dim.name, dim.sum ? fb::Combine::Sum : fb::Combine::Max, dim.max, dim.multipleOf);
  }

  void addComponents() {
    const TrainSpec &train = input.workload->train;
    for (const ComponentSpec &spec : input.workload->components) {
      auto component = std::make_unique<fb::ComponentT>();
      component->name = spec.name;
      component->frozen = spec.frozen;
      component->model_path = relativePath(spec.model);
      component->precision = static_cast<uint8_t>(train.precisionFor(spec.name));
      plan.components.push_back(std::move(component));
    }
  }

  void addFields() {
    for (const GraphField &source : input.graph->fields) {
      auto field = std::make_unique<fb::FieldT>();
      field->name = source.name;
      field->dtype = static_cast<uint8_t>(source.dtype);
      for (const DimExpr &dim : source.shape) {
        field->shape.push_back(toPlan(builder, dim));
        auto size = input.workload->synthetic.find(dim.asSymbol().value_or(""));
        if (size != input.workload->synthetic.end())
          field->synthetic += (field->synthetic.empty() ? "" : "; ") + size->first + "=" + text(size->second);
      }
      field->pad = source.pad;
      field->index_limit = source.indexLimit;
      field->has_ignore_index = source.ignoreIndex.has_value();
      field->ignore_index = source.ignoreIndex.value_or(0);
      field->optional = source.optional;
      fieldIndex[source.name] = plan.fields.size();
      plan.fields.push_back(std::move(field));
    }
  }

  static std::string text(const SizeDistribution &size) {
    switch (size.kind) {
    case SizeDistribution::Kind::Constant:
      return fmt::format("constant({})", size.a);
    case SizeDistribution::Kind::Uniform:
      return fmt::format("uniform({}, {})", size.a, size.b);
    case SizeDistribution::Kind::Normal:
      return fmt::format("normal({}, {})", size.a, size.b);
    case SizeDistribution::Kind::LogNormal:
      return fmt::format("lognormal({}, {})", size.a, size.b);
    }
    return "";
  }

  std::string relativePath(const std::string &path) const {
    std::error_code error;
    std::filesystem::path relative = std::filesystem::relative(path, input.planFolder, error);
    return error || relative.empty() ? path : relative.string();
  }

  Result<uint32_t> sourceFile(const std::string &path) {
    std::string relative = relativePath(path);
    for (uint32_t i = 0; i < plan.files.size(); ++i)
      if (plan.files[i]->path == relative)
        return i;
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0)
      return Status::invalidInput(fmt::format("{}: cannot be read", path));
    auto file = std::make_unique<fb::SourceFileT>();
    file->path = relative;
    file->size = static_cast<uint64_t>(info.st_size);
    file->modified_ns = info.st_mtim.tv_sec * int64_t{1000000000} + info.st_mtim.tv_nsec;
    plan.files.push_back(std::move(file));
    return plan.files.size() - 1;
  }

  /// Initial values where no file holds any: norms' scales are one, biases zero, the rest normal with
  /// the deviation 0.02 that GPT-2 and its successors use.
  static void chooseInitializer(const GraphParameter &source, fb::ParameterT &parameter) {
    if (source.info.zeros) {
      parameter.initializer = fb::Initializer::Zeros;
      return;
    }
    if (source.info.kind != ParameterKind::Parameter || !isFloat(source.dtype))
      return;
    bool isVector = source.shape.size() <= 1;
    bool isBias = source.info.name.ends_with("bias");
    parameter.initializer = isBias      ? fb::Initializer::Zeros
                            : isVector  ? fb::Initializer::Ones
                                        : fb::Initializer::Normal;
    parameter.initializer_scale = 0.02;
  }

  Status addParameters() {
    for (const GraphParameter &source : input.graph->parameters) {
      auto parameter = std::make_unique<fb::ParameterT>();
      auto component = std::find_if(plan.components.begin(), plan.components.end(),
                                    [&](const auto &c) { return c->name == source.component; });
      parameter->component = component - plan.components.begin();
      parameter->name = source.info.name;
      parameter->aliases = source.info.aliases;
      parameter->kind = source.info.kind == ParameterKind::Parameter ? fb::ParameterKind::Parameter
                        : source.info.kind == ParameterKind::Buffer && source.info.persistent
                            ? fb::ParameterKind::Buffer
                            : fb::ParameterKind::NonPersistentBuffer;
      parameter->shape = source.shape;
      parameter->dtype = static_cast<uint8_t>(source.info.dtype);
      parameter->trainable = source.trainable;
      parameter->source_dtype = static_cast<uint8_t>(source.sourceDtype.value_or(source.info.dtype));
      parameter->source_transposed = source.info.transposed;
      if (source.info.source) {
        MAESTRO_ASSIGN(parameter->source_file, sourceFile(source.info.source->file));
        parameter->source_offset = source.info.source->offset;
        parameter->source_bytes = source.info.source->length;
      } else {
        chooseInitializer(source, *parameter);
      }
      const OptimizerSpec &optimizer = input.workload->train.optimizer;
      bool decays = source.trainable && llvm::none_of(optimizer.noDecay, [&](const std::string &pattern) {
                      return matchesGlob(pattern, source.info.name);
                    });
      parameter->weight_decay = decays ? optimizer.weightDecay : 0;
      plan.parameters.push_back(std::move(parameter));
    }
    return Status();
  }

  /// One entry per term: decompose-loss may have split a loss into several means.
  void addLosses() {
    std::set<std::tuple<size_t, int64_t>> seen;
    mlir::ModuleOp module = input.sections;
    std::vector<mlir::func::FuncOp> functions;
    for (auto body : module.getOps<mlir::ModuleOp>())
      for (llvm::StringRef name : {attributes::kForwardFunction, attributes::kCountFunction})
        functions.push_back(body.lookupSymbol<mlir::func::FuncOp>(name));
    struct Term {
      size_t loss;
      int64_t term;
      double weight;
    };
    std::vector<Term> terms;
    for (mlir::func::FuncOp function : functions) {
      if (!function)
        continue;
      for (unsigned r = 0; r < function.getNumResults(); ++r) {
        auto name = function.getResultAttrOfType<mlir::StringAttr>(r, attributes::kLoss);
        if (!name)
          continue;
        auto term = function.getResultAttrOfType<mlir::IntegerAttr>(r, attributes::kTerm);
        auto weight = function.getResultAttrOfType<mlir::FloatAttr>(r, attributes::kWeight);
        auto loss = std::find_if(input.graph->losses.begin(), input.graph->losses.end(),
                                 [&](const GraphLoss &spec) { return spec.name == name.getValue(); });
        size_t index = loss - input.graph->losses.begin();
        if (index == input.graph->losses.size() || !seen.insert({index, term ? term.getInt() : 0}).second)
          continue;
        terms.push_back({index, term ? term.getInt() : 0, weight ? weight.getValueAsDouble() : 1.0});
      }
    }
    std::stable_sort(terms.begin(), terms.end(), [](const Term &a, const Term &b) {
      return std::tie(a.loss, a.term) < std::tie(b.loss, b.term);
    });
    for (const Term &term : terms) {
      const GraphLoss &spec = input.graph->losses[term.loss];
      auto loss = std::make_unique<fb::LossT>();
      loss->name = spec.name;
      loss->weight = spec.weight;
      loss->from_graph = spec.fromGraph;
      loss->term_weight = term.weight;
      lossIndex[{spec.name, term.term}] = plan.losses.size();
      plan.losses.push_back(std::move(loss));
    }
  }

  void addTraining() {
    const TrainSpec &train = input.workload->train;
    fb::TrainingT &training = *plan.training;
    training.global_batch = train.globalBatch;
    const OptimizerSpec &optimizer = train.optimizer;
    training.optimizer = optimizer.kind == OptimizerSpec::Kind::AdamW  ? fb::Optimizer::AdamW
                         : optimizer.kind == OptimizerSpec::Kind::Adam ? fb::Optimizer::Adam
                                                                       : fb::Optimizer::Sgd;
    training.lr = optimizer.lr;
    training.beta1 = optimizer.beta1;
    training.beta2 = optimizer.beta2;
    training.eps = optimizer.eps;
    training.momentum = optimizer.momentum;
    training.nesterov = optimizer.nesterov;
    training.clip_grad_norm = train.clipGradNorm.value_or(0);
    ScheduleSpec schedule = train.schedule.value_or(ScheduleSpec());
    training.decay = schedule.decay == ScheduleSpec::Decay::Constant ? fb::Decay::Constant
                     : schedule.decay == ScheduleSpec::Decay::Linear ? fb::Decay::Linear
                                                                     : fb::Decay::Cosine;
    training.warmup_steps = static_cast<uint64_t>(schedule.warmupSteps);
    training.total_steps = static_cast<uint64_t>(schedule.totalSteps);
    training.min_lr = schedule.minLr;
    training.seed = train.seed;
  }

  void addMachine() {
    plan.machine->name = "this machine";
    plan.machine->device_kind = "cpu";
    plan.machine->devices = input.devices;
    plan.machine->memory_bytes = input.deviceBytes;
  }

  // ---- sections -----------------------------------------------------------------------------------------------

  struct Stage {
    section::SectionOp op;
    uint32_t section = 0;
    const SectionLayout *layout = nullptr;
    uint32_t slots = 1;
  };

  void addSections() {
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
    plan.name = std::filesystem::path(input.workload->path).stem().string();
    if (plan.name.empty())
      plan.name = input.workload->components.front().name;
    plan.producer = "maestro-plan " MAESTRO_VERSION;
  }

  void addSection(section::SectionOp op, const std::string &name, const SectionLayout &layout) {
    auto section = std::make_unique<fb::SectionT>();
    section->name = name;
    for (mlir::Attribute component : op.getComponents())
      for (uint32_t c = 0; c < plan.components.size(); ++c)
        if (plan.components[c]->name == mlir::cast<mlir::StringAttr>(component).getValue())
          section->components.push_back(c);
    section->layout = std::make_unique<fb::LayoutT>();
    section->layout->data_parallel = layout.replicas();
    section->layout->stages = layout.stages;
    section->micro_batch_samples = layout.microBatch;
    if (auto active = op.getActiveDims())
      for (mlir::Attribute symbol : *active)
        section->active.push_back(builder.symbolIndex(mlir::cast<mlir::StringAttr>(symbol).getValue()));
    plan.sections.push_back(std::move(section));
  }

  size_t stageNamed(llvm::StringRef name) const {
    for (size_t s = 0; s < stages.size(); ++s) {
      section::SectionOp op = stages[s].op;
      if (op.getName() == name)
        return s;
    }
    return stages.size();
  }

  /// Edges, and from them how many micro-batches each stage has in flight.
  void addEdges() {
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

  static uint32_t stageNumber(const Stage &stage) {
    section::SectionOp op = stage.op;
    return static_cast<uint32_t>(op.getStage());
  }

  /// Which stages hold each parameter; one that none reads stays with a section of its component, to be saved.
  void findHolders() {
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

  size_t homeOf(const std::string &component) {
    for (size_t s = 0; s < stages.size(); ++s)
      for (mlir::Attribute name : stages[s].op.getComponents())
        if (mlir::cast<mlir::StringAttr>(name).getValue() == component)
          return s;
    return 0;
  }

  /// Capacity of a micro-batch in each symbol: rows of its samples, one sample's largest at least.
  std::map<std::string, int64_t> bounds(const SectionLayout &layout) const {
    std::map<std::string, int64_t> result;
    for (const GraphDim &dim : input.graph->dims)
      result[dim.name] = dim.sum ? std::max(dim.max, layout.microBatch)
                                 : (dim.max + dim.multipleOf - 1) / dim.multipleOf * dim.multipleOf;
    return result;
  }

  Status addExecutable(size_t index) {
    const Stage &stage = stages[index];
    mlir::ModuleOp body = stages[index].op.getBody();
    LoweringInput lowering;
    lowering.count = body.lookupSymbol<mlir::func::FuncOp>(attributes::kCountFunction);
    lowering.forward = body.lookupSymbol<mlir::func::FuncOp>(attributes::kForwardFunction);
    lowering.backward = body.lookupSymbol<mlir::func::FuncOp>(attributes::kBackwardFunction);
    for (uint32_t p = 0; p < input.graph->parameters.size(); ++p) {
      const GraphParameter &source = input.graph->parameters[p];
      bool present = llvm::is_contained(holders[p], index), owned = holders[p].front() == index;
      lowering.parameters.push_back({present, owned, source.fullName, source.dtype, source.shape, source.trainable,
                                     plan.parameters[p]->weight_decay});
    }
    lowering.fields = fieldIndex;
    lowering.losses = lossIndex;
    lowering.bounds = bounds(*stage.layout);
    lowering.training = plan.training.get();
    lowering.edges = edgeIndex;
    lowering.slots = stage.slots;
    lowering.depths = depths;
    lowering.rates = deviceRates();

    auto executable = std::make_unique<fb::ExecutableT>();
    executable->name = stages[index].op.getName().str();
    executable->section = stage.section;
    executable->stage = stageNumber(stage);
    executable->samples = stage.layout->microBatch;
    MAESTRO_ASSIGN(LoweringReport report, lowerExecutable(lowering, builder, *executable));
    for (const std::string &edge : report.heldEdges)
      plan.edges[edgeIndex.at(edge)]->held_until_backward = true;
    emitted.reports.push_back(std::move(report));
    for (const auto &[name, value] : lowering.bounds) {
      auto bound = std::make_unique<fb::BoundT>();
      bound->symbol = builder.symbolIndex(name);
      bound->value = value;
      executable->bounds.push_back(std::move(bound));
    }
    accountMemory(stage, *executable);
    plan.executables.push_back(std::move(executable));
    return Status();
  }

  void accountMemory(const Stage &stage, fb::ExecutableT &executable) {
    uint64_t bytes = 0, resident = 0;
    for (const auto &region : executable.regions) {
      uint64_t size = region->bytes * region->copies;
      bytes += size;
      bool perMicroBatch = region->kind == fb::RegionKind::Slot || region->kind == fb::RegionKind::Workspace ||
                           region->kind == fb::RegionKind::Channel;
      resident += perMicroBatch ? 0 : size;
    }
    uint64_t host = hostBytes(plan, executable, allAtBounds(bounds(*stage.layout)), hostThreads());
    executable.peak_bytes = host + bytes;
    uint64_t process = cost_models::cpuProcessBytes(hostThreads(), 0), staging = reductionBytes(stage);
    for (const std::vector<uint32_t> &replica : stage.layout->devices) {
      DeviceMemory &device = emitted.devices[replica[executable.stage]];
      bool first = device.stations.empty(); // Stations of one device share its process.
      device.peakBytes += host + bytes + staging - (first ? 0 : std::min(process, host));
      device.residentBytes += resident;
      device.stations.push_back(executable.name);
    }
  }

  /// Staging of the sums of gradients that others hold, too: a block per set of holders (transport/local/reduction.h).
  uint64_t reductionBytes(const Stage &stage) const {
    size_t self = static_cast<size_t>(&stage - stages.data());
    std::set<std::vector<size_t>> sets;
    for (size_t p = 0; p < holders.size(); ++p)
      if (input.graph->parameters[p].trainable && llvm::is_contained(holders[p], self) &&
          (holders[p].size() > 1 || stage.layout->replicas() > 1))
        sets.insert(holders[p]);
    return sets.size() * kStagingBytes;
  }

  cost_models::DeviceRates deviceRates() const {
    return input.rates.flopsPerSecond > 0 ? input.rates : cost_models::cpuRates(hostThreads());
  }

  int hostThreads() const { return input.deviceThreads ? static_cast<int>(input.deviceThreads) : assumedThreads(); }

  /// Plan.exprs.
  std::vector<double> allAtBounds(const std::map<std::string, int64_t> &atBounds) const {
    std::vector<double> values;
    for (const fb::DimExpr &node : plan.exprs)
      values.push_back(valueAtBounds(node, values, atBounds));
    return values;
  }

  void addStations() {
    for (uint32_t device = 0; device < input.devices; ++device) {
      auto rank = std::make_unique<fb::RankT>();
      rank->device = device;
      rank->threads = input.deviceThreads;
      plan.ranks.push_back(std::move(rank));
    }
    for (uint32_t e = 0; e < plan.executables.size(); ++e) {
      const SectionLayout &layout = *stages[e].layout;
      for (uint32_t replica = 0; replica < layout.replicas(); ++replica) {
        auto station = std::make_unique<fb::StationT>();
        station->executable = e;
        station->replica = replica;
        station->ranks = {layout.devices[replica][plan.executables[e]->stage]};
        plan.stations.push_back(std::move(station));
      }
    }
  }

  /// A step's time as the search found it, or if devices never wait: the busiest device's work, with all micro-batches
  /// at the bounds.
  void addPrediction() {
    std::vector<double> busy(input.devices, 0);
    double flops = 0;
    for (uint32_t e = 0; e < plan.executables.size(); ++e) {
      const fb::ExecutableT &executable = *plan.executables[e];
      const SectionLayout &layout = *stages[e].layout;
      double microBatches = std::ceil(static_cast<double>(input.workload->train.globalBatch) /
                                      static_cast<double>(layout.microBatch));
      std::map<std::string, int64_t> atBounds = bounds(layout);
      double seconds = 0;
      bool hasForward = std::any_of(executable.programs.begin(), executable.programs.end(),
                                    [](const auto &program) { return program->kind == fb::ProgramKind::Forward; });
      for (const auto &program : executable.programs) {
        bool runs = program->kind == fb::ProgramKind::Forward || program->kind == fb::ProgramKind::Backward ||
                    (program->kind == fb::ProgramKind::Evaluate && !hasForward);
        if (!runs)
          continue;
        for (const auto &term : program->cost) {
          double value = static_cast<double>(term->picoseconds) * 1e-12;
          for (uint32_t symbol : term->symbols)
            value *= static_cast<double>(atBounds.at(plan.symbols[symbol]->name));
          seconds += value;
        }
        flops += microBatches * flopsAtBounds(*program, atBounds);
      }
      for (const std::vector<uint32_t> &replica : layout.devices)
        busy[replica[executable.stage]] += seconds * microBatches / static_cast<double>(layout.replicas());
    }
    plan.prediction = std::make_unique<fb::PredictionT>();
    plan.prediction->step_seconds =
        input.predictedStepSeconds > 0 ? input.predictedStepSeconds : *std::max_element(busy.begin(), busy.end());
    plan.prediction->step_flops = flops;
  }

  double flopsAtBounds(const fb::ProgramT &program, const std::map<std::string, int64_t> &atBounds) const {
    return allAtBounds(atBounds)[program.flops];
  }

  double valueAtBounds(const fb::DimExpr &node, const std::vector<double> &values,
                       const std::map<std::string, int64_t> &bounds) const {
    auto lhs = [&] { return values[static_cast<size_t>(node.a())]; };
    auto rhs = [&] { return values[static_cast<size_t>(node.b())]; };
    switch (node.op()) {
    case fb::DimOp::Constant:
      return static_cast<double>(node.a());
    case fb::DimOp::Symbol:
      return static_cast<double>(bounds.at(plan.symbols[static_cast<size_t>(node.a())]->name));
    case fb::DimOp::Add:
      return lhs() + rhs();
    case fb::DimOp::Mul:
      return lhs() * rhs();
    case fb::DimOp::FloorDiv:
      return std::floor(lhs() / rhs());
    case fb::DimOp::CeilDiv:
      return std::ceil(lhs() / rhs());
    case fb::DimOp::Mod:
      return std::fmod(lhs(), rhs());
    case fb::DimOp::Min:
      return std::min(lhs(), rhs());
    case fb::DimOp::Max:
      return std::max(lhs(), rhs());
    }
    return 0;
  }

  void addDecisions() {
    for (const Decision &source : input.decisions) {
      auto decision = std::make_unique<fb::DecisionT>();
      decision->subject = source.subject;
      decision->choice = source.choice;
      decision->reason = source.reason;
      decision->is_default = source.isDefault;
      plan.decisions.push_back(std::move(decision));
    }
  }

  /// Equal for plans of the same workload, however they are laid out.
  uint64_t workloadHash() const {
    std::string text;
    for (const auto &parameter : plan.parameters)
      text += fmt::format("{} {} {} {}\n", parameter->component, parameter->name,
                          fmt::join(parameter->shape, ","), parameter->trainable);
    for (const auto &loss : plan.losses)
      text += fmt::format("{} {} {}\n", loss->name, loss->weight, loss->term_weight);
    text += fmt::format("{} {}\n", plan.training->global_batch, static_cast<int>(plan.training->optimizer));
    return plan::hashBytes({reinterpret_cast<const uint8_t *>(text.data()), text.size()});
  }

  const EmitInput &input;
  plan::PlanBuilder builder;
  fb::PlanT &plan;
  EmittedPlan emitted;
  std::map<std::string, uint32_t> fieldIndex;
  std::map<std::pair<std::string, int64_t>, uint32_t> lossIndex;
  std::vector<Stage> stages;                 ///< By Plan.executables.
  std::vector<std::vector<size_t>> holders;  ///< By Plan.parameters: the stages that hold it.
  std::map<std::string, uint32_t> edgeIndex, depths;
};

} // namespace

const DeviceMemory &EmittedPlan::fullest() const {
  return *std::max_element(devices.begin(), devices.end(),
                           [](const DeviceMemory &a, const DeviceMemory &b) { return a.peakBytes < b.peakBytes; });
}

Result<EmittedPlan> emitPlan(const EmitInput &input) { return Emitter(input).run(); }

} // namespace maestro::planner
