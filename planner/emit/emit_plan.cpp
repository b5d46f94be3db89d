#include "planner/emit/emit_plan.h"

#include "cost_models/roofline.h"
#include "ir/nn/nn.h"
#include "passes/attributes.h"
#include "planner/emit/dim_table.h"

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

/// What the process itself needs beside the plan's regions: code and libraries' data, kernels' scratch
/// memory, prepared programs, data queues. An assumption, not yet calibrated by a measurement.
constexpr uint64_t kRuntimeBytes = uint64_t{72} << 20;

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
    MAESTRO_TRY(addExecutable());
    addSection();
    addDecisions();
    plan.workload_hash = workloadHash();
    if (emitted.peakBytes <= input.deviceBytes) {
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
    mlir::ModuleOp module = input.programs;
    auto count = module.lookupSymbol<mlir::func::FuncOp>(attributes::kCountFunction);
    auto forward = module.lookupSymbol<mlir::func::FuncOp>(attributes::kForwardFunction);
    struct Term {
      size_t loss;
      int64_t term;
      double weight;
    };
    std::vector<Term> terms;
    for (mlir::func::FuncOp function : {forward, count}) {
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
    plan.machine->devices = 1;
    plan.machine->memory_bytes = input.deviceBytes;
  }

  /// Capacity of a micro-batch in each symbol: rows of its samples, one sample's largest at least.
  std::map<std::string, int64_t> bounds() const {
    std::map<std::string, int64_t> result;
    for (const GraphDim &dim : input.graph->dims)
      result[dim.name] = dim.sum ? std::max(dim.max, input.microBatch.samples)
                                 : (dim.max + dim.multipleOf - 1) / dim.multipleOf * dim.multipleOf;
    return result;
  }

  Status addExecutable() {
    mlir::ModuleOp module = input.programs;
    LoweringInput lowering;
    lowering.count = module.lookupSymbol<mlir::func::FuncOp>(attributes::kCountFunction);
    lowering.forward = module.lookupSymbol<mlir::func::FuncOp>(attributes::kForwardFunction);
    lowering.backward = module.lookupSymbol<mlir::func::FuncOp>(attributes::kBackwardFunction);
    for (uint32_t p = 0; p < input.graph->parameters.size(); ++p) {
      const GraphParameter &source = (input.graph->parameters)[p];
      lowering.parameters.push_back({source.fullName, source.dtype, source.shape, source.trainable,
                                     plan.parameters[p]->weight_decay});
    }
    lowering.fields = fieldIndex;
    lowering.losses = lossIndex;
    lowering.bounds = bounds();
    lowering.training = plan.training.get();

    auto executable = std::make_unique<fb::ExecutableT>();
    executable->name = input.workload->components.front().name;
    executable->samples = input.microBatch.samples;
    MAESTRO_ASSIGN(emitted.report, lowerExecutable(lowering, builder, *executable));
    for (const auto &[name, value] : lowering.bounds) {
      auto bound = std::make_unique<fb::BoundT>();
      bound->symbol = builder.symbolIndex(name);
      bound->value = value;
      executable->bounds.push_back(std::move(bound));
    }
    emitted.peakBytes = kRuntimeBytes;
    for (const auto &region : executable->regions) {
      uint64_t bytes = region->bytes * region->copies;
      emitted.peakBytes += bytes;
      if (region->kind != fb::RegionKind::Slot && region->kind != fb::RegionKind::Workspace)
        emitted.residentBytes += bytes;
    }
    executable->peak_bytes = emitted.peakBytes;
    addPrediction(*executable, lowering.bounds);
    plan.executables.push_back(std::move(executable));
    return Status();
  }

  /// Roofline time of a step whose micro-batches are all at the bounds.
  void addPrediction(const fb::ExecutableT &executable, const std::map<std::string, int64_t> &bounds) {
    std::vector<double> values;
    for (const fb::DimExpr &node : plan.exprs)
      values.push_back(valueAtBounds(node, values, bounds));
    cost_models::DeviceRates rates =
        cost_models::cpuRates(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
    double perMicroBatch = 0, flops = 0;
    for (const auto &program : executable.programs)
      if (program->kind == fb::ProgramKind::Forward || program->kind == fb::ProgramKind::Backward) {
        flops += values[program->flops];
        perMicroBatch += cost_models::rooflineSeconds(values[program->flops], values[program->memory_bytes], rates);
      }
    double microBatches = std::ceil(static_cast<double>(input.workload->train.globalBatch) /
                                    static_cast<double>(input.microBatch.samples));
    plan.prediction = std::make_unique<fb::PredictionT>();
    plan.prediction->step_seconds = perMicroBatch * microBatches;
    plan.prediction->step_flops = flops * microBatches;
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

  void addSection() {
    auto section = std::make_unique<fb::SectionT>();
    section->name = input.workload->components.front().name;
    for (uint32_t c = 0; c < plan.components.size(); ++c)
      section->components.push_back(c);
    section->trains = true;
    section->layout = std::make_unique<fb::LayoutT>();
    section->micro_batch_samples = input.microBatch.samples;
    auto rank = std::make_unique<fb::RankT>();
    plan.ranks.push_back(std::move(rank));
    auto station = std::make_unique<fb::StationT>();
    station->ranks = {0};
    plan.stations.push_back(std::move(station));
    plan.name = std::filesystem::path(input.workload->path).stem().string();
    if (plan.name.empty())
      plan.name = section->name;
    plan.sections.push_back(std::move(section));
    plan.producer = "maestro-plan " MAESTRO_VERSION;
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
};

} // namespace

Result<EmittedPlan> emitPlan(const EmitInput &input) { return Emitter(input).run(); }

} // namespace maestro::planner
