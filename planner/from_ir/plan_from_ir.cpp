#include "planner/from_ir/plan_from_ir.h"

#include "base/dtype.h"
#include "ir/nn/nn.h"
#include "ir/plan/tables.h"
#include "plan/builder.h"

#include "llvm/ADT/StringExtras.h"

#include <fmt/format.h>

#include <limits>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;
using namespace plan_ir;

/// A new row at the end of a table.
template <typename T> T &add(std::vector<std::unique_ptr<T>> &table) {
  table.push_back(std::make_unique<T>());
  return *table.back();
}

std::string text(std::optional<llvm::StringRef> value) { return value.value_or("").str(); }

/// The enumerations of the dialect have the numbers of the plan's.
template <typename To, typename From> To enumOf(From value) { return static_cast<To>(value); }

class Writer {
public:
  explicit Writer(PlanTables &ir) : ir(ir), plan(builder.plan()) {}

  Result<std::vector<uint8_t>> run() {
    MAESTRO_TRY(head());
    MAESTRO_TRY(data());
    MAESTRO_TRY(parameters());
    training();
    MAESTRO_TRY(sections());
    for (ExecutableTable &table : ir.executables)
      MAESTRO_TRY(executable(table));
    people();
    Result<std::vector<uint8_t>> bytes = builder.finish();
    if (!bytes) // PlanBuilder blames its caller; here that is the text.
      return Status::invalidInput(std::string(bytes.status().message()));
    return bytes;
  }

private:
  // ---- Small parts -----------------------------------------------------------------------------------------------

  static Status dtype(mlir::Type type, uint8_t &to) {
    std::optional<DType> found = nn::dtypeOf(type);
    if (!found)
      return Status::invalidInput("an element type is none of f32, f64, bf16, f16, i64, i32, i16, i8, ui8, i1");
    to = static_cast<uint8_t>(*found);
    return {};
  }

  /// Fields of 32 bits.
  static Status narrow(uint64_t value, const char *what, uint32_t &to) {
    if (value > std::numeric_limits<uint32_t>::max())
      return Status::invalidInput(fmt::format("{} {} does not fit 32 bits", what, static_cast<int64_t>(value)));
    to = static_cast<uint32_t>(value);
    return {};
  }

  static Status bytesOf(std::optional<llvm::StringRef> digits, std::vector<uint8_t> &to) {
    std::string bytes;
    if (digits && !llvm::tryGetFromHex(*digits, bytes))
      return Status::invalidInput("a value has other characters than hexadecimal digits");
    to.assign(bytes.begin(), bytes.end());
    return {};
  }

  uint32_t expr(ExprAttr value) const { return *ir.exprs.find(value); }

  std::vector<uint32_t> exprs(mlir::ArrayAttr values) const {
    std::vector<uint32_t> result;
    for (mlir::Attribute value : values)
      result.push_back(expr(mlir::cast<ExprAttr>(value)));
    return result;
  }

  static std::vector<uint32_t> places(mlir::ArrayAttr values, const llvm::StringMap<uint32_t> &names) {
    std::vector<uint32_t> result;
    for (mlir::Attribute name : values)
      result.push_back(names.lookup(mlir::cast<mlir::StringAttr>(name).getValue()));
    return result;
  }

  static std::vector<std::string> texts(std::optional<mlir::ArrayAttr> values) {
    std::vector<std::string> result;
    if (values)
      for (mlir::Attribute value : *values)
        result.push_back(mlir::cast<mlir::StringAttr>(value).getValue().str());
    return result;
  }

  void costs(std::optional<mlir::ArrayAttr> terms, std::vector<std::unique_ptr<fb::CostTermT>> &to) const {
    if (!terms)
      return;
    for (mlir::Attribute value : *terms) {
      CostTerm cost = *costTermOf(mlir::cast<ExprAttr>(value));
      fb::CostTermT &term = add(to);
      term.picoseconds = cost.picoseconds;
      for (llvm::StringRef symbol : cost.symbols)
        term.symbols.push_back(ir.symbolNames.lookup(symbol));
    }
  }

  // ---- Tables of the plan ------------------------------------------------------------------------------------------

  Status head() {
    plan.name = ir.plan.getName();
    MAESTRO_TRY(narrow(ir.plan.getVersionMajor(), "version_major", plan.version_major));
    MAESTRO_TRY(narrow(ir.plan.getVersionMinor(), "version_minor", plan.version_minor));
    plan.producer = ir.plan.getProducer();
    plan.workload_hash = ir.plan.getWorkloadHash();
    plan.no_synthetic = text(ir.plan.getNoSynthetic());
    plan.machine->name = ir.machine.getName();
    plan.machine->device_kind = ir.machine.getDeviceKind();
    MAESTRO_TRY(narrow(ir.machine.getDevices(), "devices", plan.machine->devices));
    plan.machine->memory_bytes = ir.machine.getMemoryBytes();
    for (LinkOp op : ir.links) {
      fb::LinkT &link = add(plan.machine->links);
      link.name = op.getName();
      MAESTRO_TRY(narrow(op.getSpans(), "spans", link.spans));
      link.bandwidth = op.getBandwidth().convertToDouble();
      link.latency = op.getLatency().convertToDouble();
    }
    for (DeviceKindOp op : ir.deviceKinds) {
      fb::DeviceKindT &kind = add(plan.machine->device_kinds);
      kind.name = op.getName();
      MAESTRO_TRY(narrow(op.getDevices(), "devices", kind.devices));
      kind.memory_bytes = op.getMemoryBytes();
    }
    for (SymbolOp op : ir.symbols) {
      fb::SymbolT &symbol = add(plan.symbols);
      symbol.name = op.getName();
      symbol.combine = enumOf<fb::Combine>(op.getCombine());
      symbol.sample_max = static_cast<int64_t>(op.getSampleMax());
      symbol.multiple_of = static_cast<int64_t>(op.getMultipleOf());
      symbol.unpadded = text(op.getUnpadded());
    }
    for (const ExprTable::Node &node : ir.exprs.all())
      plan.exprs.emplace_back(enumOf<fb::DimOp>(node.op), node.a, node.b);
    return {};
  }

  Status data() {
    for (FieldOp op : ir.fields) {
      fb::FieldT &field = add(plan.fields);
      field.name = op.getName();
      MAESTRO_TRY(dtype(op.getDtype(), field.dtype));
      field.shape = exprs(op.getShape());
      field.pad = op.getPad().convertToDouble();
      field.index_limit = static_cast<int64_t>(op.getIndexLimit());
      field.has_ignore_index = op.getIgnoreIndex().has_value();
      field.ignore_index = static_cast<int64_t>(op.getIgnoreIndex().value_or(0));
      field.optional = op.getOptional();
      field.synthetic = text(op.getSynthetic());
      field.own_positions = op.getOwnPositions();
      for (size_t i = 0; op.getMarks() && i < op.getMarks()->size(); ++i) {
        fb::MarkT &mark = add(field.marks);
        mark.value = (*op.getMarks())[i];
        mark.symbol = places(*op.getMarkSymbols(), ir.symbolNames)[i];
        mark.per_row = (*op.getMarksPerRow())[i];
      }
    }
    for (FileOp op : ir.files) {
      fb::SourceFileT &file = add(plan.files);
      file.path = op.getPath();
      file.size = op.getSize();
      file.modified_ns = static_cast<int64_t>(op.getModifiedNs());
    }
    for (ComponentOp op : ir.components) {
      fb::ComponentT &component = add(plan.components);
      component.name = op.getName();
      component.frozen = op.getFrozen();
      component.model_path = text(op.getModelPath());
      MAESTRO_TRY(dtype(op.getPrecision(), component.precision));
    }
    return {};
  }

  Status parameters() {
    for (ParameterOp op : ir.parameters) {
      fb::ParameterT &parameter = add(plan.parameters);
      parameter.component = ir.componentNames.lookup(op.getComponent());
      parameter.name = op.getName();
      parameter.aliases = texts(op.getAliases());
      parameter.kind = enumOf<fb::ParameterKind>(op.getKind());
      parameter.shape = op.getShape().vec();
      MAESTRO_TRY(dtype(op.getDtype(), parameter.dtype));
      parameter.trainable = op.getTrainable();
      parameter.source_file = op.getSourceFile() ? static_cast<uint32_t>(*op.getSourceFile()) : plan::kNone;
      parameter.source_offset = op.getSourceOffset();
      parameter.source_bytes = op.getSourceBytes();
      MAESTRO_TRY(dtype(op.getSourceDtype(), parameter.source_dtype));
      parameter.source_transposed = op.getSourceTransposed();
      MAESTRO_TRY(bytesOf(op.getInlineValue(), parameter.inline_value));
      parameter.initializer = enumOf<fb::Initializer>(op.getInitializer());
      parameter.initializer_scale = op.getInitializerScale().convertToDouble();
      parameter.weight_decay = op.getWeightDecay().convertToDouble();
    }
    return {};
  }

  void training() {
    for (LossOp op : ir.losses) {
      fb::LossT &loss = add(plan.losses);
      loss.name = op.getName();
      loss.weight = op.getWeight().convertToDouble();
      loss.from_graph = op.getFromGraph();
      loss.term_weight = op.getTermWeight().convertToDouble();
      loss.note = text(op.getNote());
      if (std::optional<llvm::APFloat> floor = op.getCountFloor())
        loss.count_floor = floor->convertToDouble();
    }
    TrainingOp op = ir.training;
    fb::TrainingT &training = *plan.training;
    training.global_batch = op.getGlobalBatch();
    training.optimizer = enumOf<fb::Optimizer>(op.getOptimizer());
    training.lr = op.getLr().convertToDouble();
    training.beta1 = op.getBeta1().convertToDouble();
    training.beta2 = op.getBeta2().convertToDouble();
    training.eps = op.getEps().convertToDouble();
    training.momentum = op.getMomentum().convertToDouble();
    training.nesterov = op.getNesterov();
    training.clip_grad_norm = op.getClipGradNorm().convertToDouble();
    training.decay = enumOf<fb::Decay>(op.getDecay());
    training.warmup_steps = op.getWarmupSteps();
    training.total_steps = op.getTotalSteps();
    training.min_lr = op.getMinLr().convertToDouble();
    training.seed = op.getSeed();
    training.bad_steps = op.getBadSteps();
  }

  Status sections() {
    for (SectionOp op : ir.sections) {
      fb::SectionT &section = add(plan.sections);
      section.name = op.getName();
      section.components = places(op.getComponents(), ir.componentNames);
      section.trains = op.getTrains();
      section.micro_batch_samples = static_cast<int64_t>(op.getMicroBatchSamples());
      section.scopes = texts(op.getScopes());
      if (op.getActive())
        section.active = places(*op.getActive(), ir.symbolNames);
      if (op.getUnpadded())
        section.unpadded = places(*op.getUnpadded(), ir.symbolNames);
      section.layout = std::make_unique<fb::LayoutT>();
      fb::LayoutT &layout = *section.layout;
      MAESTRO_TRY(narrow(op.getDataParallel(), "data_parallel", layout.data_parallel));
      MAESTRO_TRY(narrow(op.getStages(), "stages", layout.stages));
      MAESTRO_TRY(narrow(op.getTensorParallel(), "tensor_parallel", layout.tensor_parallel));
      MAESTRO_TRY(narrow(op.getContextParallel(), "context_parallel", layout.context_parallel));
      MAESTRO_TRY(narrow(op.getExpertParallel(), "expert_parallel", layout.expert_parallel));
      MAESTRO_TRY(narrow(op.getZeroStage(), "zero_stage", layout.zero_stage));
      layout.recompute = op.getRecompute();
      layout.full_recompute = op.getFullRecompute();
      MAESTRO_TRY(narrow(op.getLighterLayers().value_or(0), "lighter_layers", layout.lighter_layers));
      layout.lighter_evenly = op.getLighterEvenly();
      MAESTRO_TRY(narrow(op.getSplitBackward().value_or(0), "split_backward", layout.split_backward));
    }
    for (EdgeOp op : ir.edges) {
      fb::EdgeT &edge = add(plan.edges);
      edge.name = op.getName();
      edge.producer = ir.sectionNames.lookup(op.getProducer());
      edge.producer_stage = static_cast<uint32_t>(op.getProducerStage());
      edge.consumer = ir.sectionNames.lookup(op.getConsumer());
      edge.consumer_stage = static_cast<uint32_t>(op.getConsumerStage());
      MAESTRO_TRY(dtype(op.getDtype(), edge.dtype));
      edge.shape = exprs(op.getShape());
      edge.carries_gradient = op.getCarriesGradient();
      edge.held_until_backward = op.getHeldUntilBackward();
      costs(op.getCost(), edge.cost);
    }
    return stations();
  }

  Status stations() {
    for (RankOp op : ir.ranks) {
      fb::RankT &rank = add(plan.ranks);
      MAESTRO_TRY(narrow(op.getDevice(), "device", rank.device));
      MAESTRO_TRY(narrow(op.getThreads(), "threads", rank.threads));
      rank.peak_bytes = op.getPeakBytes().value_or(0);
    }
    for (StationOp op : ir.stations) {
      fb::StationT &station = add(plan.stations);
      station.executable = static_cast<uint32_t>(op.getExecutable());
      MAESTRO_TRY(narrow(op.getReplica(), "replica", station.replica));
      station.ranks.assign(op.getRanks().begin(), op.getRanks().end());
    }
    for (GradientSumOp op : ir.gradientSums) {
      fb::GradientSumT &sum = add(plan.gradient_sums);
      sum.parameters.assign(op.getParameters().begin(), op.getParameters().end());
      sum.stations.assign(op.getStations().begin(), op.getStations().end());
    }
    return {};
  }

  void people() {
    if (PredictionOp op = ir.prediction) {
      plan.prediction = std::make_unique<fb::PredictionT>();
      plan.prediction->step_seconds = op.getStepSeconds().convertToDouble();
      plan.prediction->step_flops = op.getStepFlops().convertToDouble();
      plan.prediction->tokens_per_second = op.getTokensPerSecond().convertToDouble();
    }
    for (StepSamplesOp op : ir.stepSamples) {
      fb::StepSamplesT &step = add(plan.step_samples);
      step.sizes.assign(op.getSizes().begin(), op.getSizes().end());
    }
    for (DecisionOp op : ir.decisions) {
      fb::DecisionT &decision = add(plan.decisions);
      decision.subject = op.getSubject();
      decision.choice = op.getChoice();
      decision.reason = op.getReason();
      decision.is_default = op.getIsDefault();
    }
    for (CandidateOp op : ir.candidates) {
      fb::CandidateT &candidate = add(plan.candidates);
      candidate.kind = enumOf<fb::CandidateKind>(op.getKind());
      candidate.subject = op.getSubject();
      candidate.choice = op.getChoice();
      candidate.step_seconds = op.getStepSeconds().convertToDouble();
      candidate.missing_bytes = op.getMissingBytes();
      candidate.in_file_order = op.getInFileOrder();
      candidate.reason = op.getReason();
    }
    for (LimitOp op : ir.limits) {
      fb::LimitT &limit = add(plan.limits);
      limit.kind = enumOf<fb::LimitKind>(op.getKind());
      limit.place = op.getPlace();
      limit.used = op.getUsed().convertToDouble();
      limit.limit = op.getLimit().convertToDouble();
      limit.reason = op.getReason();
    }
    for (QuantityOp op : ir.quantities) {
      fb::QuantityT &quantity = add(plan.quantities);
      quantity.name = op.getName();
      quantity.value = op.getValue().convertToDouble();
      quantity.unit = op.getUnit();
      quantity.source = op.getSource();
    }
  }

  // ---- Executables -------------------------------------------------------------------------------------------------

  Status executable(ExecutableTable &table) {
    fb::ExecutableT &executable = add(plan.executables);
    executable.name = table.op.getName();
    executable.section = ir.sectionNames.lookup(table.op.getSection());
    executable.stage = static_cast<uint32_t>(table.op.getStage());
    executable.samples = static_cast<int64_t>(table.op.getSamples());
    executable.peak_bytes = table.op.getPeakBytes();
    for (BoundOp op : table.bounds) {
      fb::BoundT &bound = add(executable.bounds);
      bound.symbol = ir.symbolNames.lookup(op.getSymbol());
      bound.value = static_cast<int64_t>(op.getValue());
    }
    for (AreaOp op : table.areas) {
      fb::AreaT &area = add(executable.areas);
      area.rows = ir.symbolNames.lookup(op.getRows());
      area.padded = ir.symbolNames.lookup(op.getPadded());
      area.value = static_cast<int64_t>(op.getValue());
    }
    MAESTRO_TRY(memory(table, executable));
    for (BindingOp op : table.bindings) {
      fb::BindingT &binding = add(executable.bindings);
      binding.kind = enumOf<fb::BindingKind>(op.getKind());
      MAESTRO_TRY(narrow(op.getIndex(), "index", binding.index));
      binding.buffer = static_cast<uint32_t>(op.getBuffer());
      if (op.getSplitDim())
        MAESTRO_TRY(narrow(*op.getSplitDim(), "split_dim", binding.split_dim));
    }
    for (ProgramTable &program : table.programs)
      MAESTRO_TRY(this->program(program, add(executable.programs)));
    return {};
  }

  Status memory(ExecutableTable &table, fb::ExecutableT &executable) {
    for (RegionOp op : table.regions) {
      fb::RegionT &region = add(executable.regions);
      region.kind = enumOf<fb::RegionKind>(op.getKind());
      region.bytes = op.getBytes();
      MAESTRO_TRY(narrow(op.getCopies(), "copies", region.copies));
      region.edge = op.getEdge() ? ir.edgeNames.lookup(*op.getEdge()) : plan::kNone;
      region.gradient = op.getGradient();
    }
    for (BufferOp op : table.buffers) {
      fb::BufferT &buffer = add(executable.buffers);
      buffer.name = text(op.getName());
      MAESTRO_TRY(dtype(op.getDtype(), buffer.dtype));
      buffer.shape = exprs(op.getShape());
      buffer.region = static_cast<uint32_t>(op.getRegion());
      buffer.offset = op.getOffset();
      buffer.bytes = op.getBytes();
      MAESTRO_TRY(bytesOf(op.getConstant(), buffer.constant));
    }
    return {};
  }

  Status program(ProgramTable &table, fb::ProgramT &program) {
    program.kind = enumOf<fb::ProgramKind>(table.op.getKind());
    program.fields = places(table.op.getFields(), ir.fieldNames);
    program.flops = expr(table.op.getFlops());
    program.memory_bytes = expr(table.op.getMemoryBytes());
    costs(table.op.getCost(), program.cost);
    for (CallOp op : table.calls) {
      fb::CallT &call = add(program.calls);
      call.kernel = builder.kernel(op.getKernel());
      for (auto [buffers, to] : {std::pair(op.getInputs(), &call.inputs), std::pair(op.getOutputs(), &call.outputs)})
        for (int64_t buffer : buffers)
          to->push_back(buffer == kNoBuffer ? plan::kNone : static_cast<uint32_t>(buffer));
      call.attributes = builder.attributes(attributes(op));
      call.scope = builder.scope(text(op.getScope()));
    }
    return {};
  }

  std::vector<fb::AttributeT> attributes(CallOp op) const {
    std::vector<fb::AttributeT> items;
    if (!op.getNames())
      return items;
    for (auto [nameAttr, value] : llvm::zip(op.getNamesAttr(), op.getValuesAttr())) {
      llvm::StringRef name = mlir::cast<mlir::StringAttr>(nameAttr).getValue();
      if (auto integers = mlir::dyn_cast<mlir::DenseI64ArrayAttr>(value))
        items.push_back(plan::intsAttribute(name, integers.asArrayRef().vec()));
      else if (auto numbers = mlir::dyn_cast<mlir::DenseF64ArrayAttr>(value))
        items.push_back(plan::floatsAttribute(name, numbers.asArrayRef().vec()));
      else if (auto words = mlir::dyn_cast<mlir::StringAttr>(value))
        items.push_back(plan::textAttribute(name, words.getValue()));
      else
        items.push_back(plan::exprsAttribute(name, exprs(mlir::cast<mlir::ArrayAttr>(value))));
    }
    return items;
  }

  PlanTables &ir;
  plan::PlanBuilder builder;
  fb::PlanT &plan;
};

} // namespace

Result<std::vector<uint8_t>> planFromIr(PlanOp plan) {
  llvm::FailureOr<std::unique_ptr<PlanTables>> tables = PlanTables::read(plan);
  if (mlir::failed(tables))
    return Status::invalidInput("the module is no plan");
  return Writer(**tables).run();
}

} // namespace maestro::planner
