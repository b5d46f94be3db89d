#include "planner/emit/emit_plan.h"

#include "cost_models/roofline.h"
#include "ir/nn/nn.h"
#include "passes/attributes.h"
#include "planner/emit/dim_table.h"
#include "planner/emit/name_patterns.h"

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
/// memory, prepared programs, data queues. Measured as the resident size of runs of small models.
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
    MAESTRO_ASSIGN(emitted.bytes, builder.finish());
    return std::move(emitted);
  }

private:
  void declareSymbols() {
    for (const DimSpec &dim : input.linked->dims)
      builder.symbol(dim.name, dim.sum ? fb::Combine::Sum : fb::Combine::Max, dim.max, dim.multipleOf);
  }

  void addComponents() {
    for (const ComponentSpec &spec : input.workload->components) {
      auto component = std::make_unique<fb::ComponentT>();
      component->name = spec.name;
      component->frozen = spec.frozen;
      component->model_path = relativePath(spec.model);
      component->precision = static_cast<uint8_t>(spec.precision);
      plan.components.push_back(std::move(component));
    }
  }

  void addFields() {
    for (const LinkedField &linked : input.linked->fields) {
      auto field = std::make_unique<fb::FieldT>();
      field->name = linked.name;
      field->dtype = static_cast<uint8_t>(linked.dtype);
      for (const std::string &dim : linked.shape)
        field->shape.push_back(toPlan(builder, *DimExpr::parse(dim)));
      field->pad = linked.pad;
      field->index_limit = linked.indexLimit;
      field->has_ignore_index = linked.ignoreIndex.has_value();
      field->ignore_index = linked.ignoreIndex.value_or(0);
      field->optional = linked.optional;
      for (const auto &[symbol, distribution] : input.workload->synthetic)
        if (std::find(linked.shape.begin(), linked.shape.end(), symbol) != linked.shape.end())
          field->synthetic += (field->synthetic.empty() ? "" : "; ") + symbol + "=" + distribution;
      fieldIndex[linked.name] = plan.fields.size();
      plan.fields.push_back(std::move(field));
    }
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
    for (const GraphParameter &source : *input.parameters) {
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
      parameter->source_dtype = static_cast<uint8_t>(source.info.dtype);
      parameter->source_transposed = source.info.transposed;
      if (source.info.source) {
        MAESTRO_ASSIGN(parameter->source_file, sourceFile(source.info.source->file));
        parameter->source_offset = source.info.source->offset;
        parameter->source_bytes = source.info.source->length;
      } else {
        chooseInitializer(source, *parameter);
      }
      const TrainSpec &train = input.workload->train;
      bool decays = source.trainable && !matchesAny(source.info.name, train.noDecay);
      parameter->weight_decay = decays ? train.weightDecay : 0;
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
        auto loss = std::find_if(input.linked->losses.begin(), input.linked->losses.end(),
                                 [&](const LossSpec &spec) { return spec.name == name.getValue(); });
        size_t index = loss - input.linked->losses.begin();
        if (index == input.linked->losses.size() || !seen.insert({index, term ? term.getInt() : 0}).second)
          continue;
        terms.push_back({index, term ? term.getInt() : 0, weight ? weight.getValueAsDouble() : 1.0});
      }
    }
    std::stable_sort(terms.begin(), terms.end(), [](const Term &a, const Term &b) {
      return std::tie(a.loss, a.term) < std::tie(b.loss, b.term);
    });
    for (const Term &term : terms) {
      const LossSpec &spec = input.linked->losses[term.loss];
      auto loss = std::make_unique<fb::LossT>();
      loss->name = spec.name;
      loss->weight = spec.weight;
      loss->from_graph = spec.kind == LossKind::Output;
      loss->term_weight = term.weight;
      lossIndex[{spec.name, term.term}] = plan.losses.size();
      plan.losses.push_back(std::move(loss));
    }
  }

  void addTraining() {
    const TrainSpec &train = input.workload->train;
    fb::TrainingT &training = *plan.training;
    training.global_batch = train.globalBatch;
    training.optimizer = static_cast<fb::Optimizer>(train.optimizer);
    training.lr = train.lr;
    training.beta1 = train.beta1;
    training.beta2 = train.beta2;
    training.eps = train.eps;
    training.momentum = train.momentum;
    training.nesterov = train.nesterov;
    training.clip_grad_norm = train.clipGradNorm;
    training.decay = static_cast<fb::Decay>(train.decay);
    training.warmup_steps = train.warmupSteps;
    training.total_steps = train.totalSteps;
    training.min_lr = train.minLr;
    training.seed = train.seed;
  }

  void addMachine() {
    plan.machine->name = input.cluster->name;
    plan.machine->device_kind = input.cluster->deviceKind;
    plan.machine->devices = 1;
    plan.machine->memory_bytes = 0;
  }

  /// Capacity of a micro-batch in each symbol: rows of its samples, one sample's largest at least.
  std::map<std::string, int64_t> bounds() const {
    std::map<std::string, int64_t> result;
    for (const DimSpec &dim : input.linked->dims)
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
    for (uint32_t p = 0; p < input.parameters->size(); ++p) {
      const GraphParameter &source = (*input.parameters)[p];
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
    for (const auto &region : executable->regions)
      emitted.peakBytes += region->bytes * region->copies;
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
    plan.sections.push_back(std::move(section));
    auto rank = std::make_unique<fb::RankT>();
    plan.ranks.push_back(std::move(rank));
    auto station = std::make_unique<fb::StationT>();
    station->ranks = {0};
    plan.stations.push_back(std::move(station));
    plan.name = input.workload->name;
    plan.producer = "maestro-plan " MAESTRO_VERSION;
  }

  void addDecisions() {
    auto add = [&](const DefaultTaken &taken, bool isDefault) {
      auto decision = std::make_unique<fb::DecisionT>();
      decision->subject = taken.subject;
      decision->choice = taken.choice;
      decision->reason = taken.reason;
      decision->is_default = isDefault;
      plan.decisions.push_back(std::move(decision));
    };
    for (const DefaultTaken &taken : input.workload->defaults)
      add(taken, true);
    for (const DefaultTaken &taken : input.linked->defaults)
      add(taken, true);
    add({"*.micro_batch", fmt::format("{} samples", input.microBatch.samples), input.microBatch.reason},
        !input.microBatch.isPinned);
    for (const DefaultTaken &taken : input.decisions)
      add(taken, true);
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

Result<std::vector<GraphParameter>> collectParameters(mlir::func::FuncOp graph) {
  std::vector<GraphParameter> parameters;
  for (unsigned i = 0; i < graph.getNumArguments(); ++i) {
    auto name = graph.getArgAttrOfType<mlir::StringAttr>(i, attributes::kParameter);
    std::optional<ParameterInfo> info = parameterInfo(graph, i);
    if (!name || !info)
      continue;
    GraphParameter parameter;
    parameter.fullName = name.getValue().str();
    parameter.component = parameter.fullName.substr(0, parameter.fullName.find('/'));
    parameter.info = *info;
    parameter.trainable = static_cast<bool>(graph.getArgAttr(i, attributes::kTrainable));
    nn::TensorType type = nn::typeOf(graph.getArgument(i));
    parameter.dtype = *nn::dtypeOf(type.getElementType());
    for (const DimExpr &dim : type.getShape()) {
      if (!dim.isConstant())
        return Status::invalidInput(fmt::format("parameter '{}' has the symbolic dim '{}'; parameters have fixed "
                                                "shapes", parameter.fullName, dim.str()));
      parameter.shape.push_back(*dim.asConstant());
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

Result<EmittedPlan> emitPlan(const EmitInput &input) { return Emitter(input).run(); }

} // namespace maestro::planner
