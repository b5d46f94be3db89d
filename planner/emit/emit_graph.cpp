// What is trained on what: dims, components, fields, parameters, losses.
#include "planner/emit/emitter.h"

#include "ir/nn/nn.h"
#include "passes/attributes.h"
#include "planner/emit/dim_table.h"
#include "planner/emit/initial_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <tuple>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;

std::string text(const SizeDistribution &size) {
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

} // namespace

void PlanEmitter::declareSymbols() {
  for (const GraphDim &dim : input.graph->dims)
    builder.symbol(dim.name, dim.sum ? fb::Combine::Sum : fb::Combine::Max, dim.max, dim.multipleOf, dim.unpadded);
}

void PlanEmitter::addComponents() {
  const TrainSpec &train = input.workload->train;
  for (const ComponentSpec &spec : input.workload->components) {
    auto component = std::make_unique<fb::ComponentT>();
    component->name = spec.name;
    component->frozen = spec.frozen;
    component->saves_trained = spec.savesTrained;
    component->strip = spec.strip;
    component->model_path = relativePath(spec.model);
    component->precision = static_cast<uint8_t>(train.precisionFor(spec.name));
    plan.components.push_back(std::move(component));
  }
}

void PlanEmitter::addFields() {
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
    field->own_positions = source.ownPositions;
    for (const GraphMark &mark : source.marks) {
      auto table = std::make_unique<fb::MarkT>();
      table->value = mark.value;
      table->symbol = builder.symbolIndex(mark.rows);
      table->per_row = mark.perRow;
      field->marks.push_back(std::move(table));
    }
    fieldIndex[source.name] = plan.fields.size();
    plan.fields.push_back(std::move(field));
  }
}

std::string PlanEmitter::relativePath(const std::string &path) const {
  std::error_code error;
  std::filesystem::path relative = std::filesystem::relative(path, input.planFolder, error);
  return error || relative.empty() ? path : relative.string();
}

Result<uint32_t> PlanEmitter::sourceFile(const std::string &path) {
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

/// A pattern that matches nothing is misspelt.
Status PlanEmitter::checkGroups() const {
  for (const OptimizerSpec &group : input.workload->train.groups)
    for (const std::string &pattern : group.parameters)
      if (llvm::none_of(input.graph->parameters, [&](const GraphParameter &source) {
            return source.trainable && namesParameter(pattern, source.component, source.info.name);
          }))
        return Status::invalidInput(fmt::format("{}: '{}' matches no parameter that trains", group.place, pattern));
  return Status();
}

Status PlanEmitter::addParameters() {
  MAESTRO_TRY(checkGroups());
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
      chooseInitialValues(source, *parameter);
    }
    parameter->group = source.trainable ? input.workload->train.groupOf(source.component, source.info.name) : 0;
    const OptimizerSpec &optimizer = input.workload->train.optimizerOf(parameter->group);
    if (source.trainable && optimizer.kind == OptimizerSpec::Kind::Muon && source.shape.size() != 2)
      return Status::invalidInput(fmt::format(
          "{}: has the shape [{}], and Muon updates matrices; write a list as train.optimizer, where muon names "
          "`parameters`, and the last is for all others",
          source.fullName, fmt::join(source.shape, ", ")));
    bool decays = source.trainable && llvm::none_of(optimizer.noDecay, [&](const std::string &pattern) {
                    return matchesGlob(pattern, source.info.name);
                  });
    parameter->weight_decay = decays ? optimizer.weightDecay : 0;
    plan.parameters.push_back(std::move(parameter));
  }
  return Status();
}

/// One entry per term: decompose-loss may have split a loss into several means.
void PlanEmitter::addLosses() {
  std::map<std::tuple<size_t, int64_t>, size_t> seen; ///< Loss and term: into terms.
  mlir::ModuleOp module = input.sections;
  std::vector<mlir::func::FuncOp> functions;
  for (auto body : module.getOps<mlir::ModuleOp>())
    for (llvm::StringRef name : {attributes::kForwardFunction, attributes::kCountFunction})
      functions.push_back(body.lookupSymbol<mlir::func::FuncOp>(name));
  struct Term {
    size_t loss;
    int64_t term;
    double weight;
    double floor = 0;
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
      auto floor = function.getResultAttrOfType<mlir::FloatAttr>(r, attributes::kFloor);
      if (index == input.graph->losses.size())
        continue;
      auto [place, isNew] = seen.try_emplace({index, term ? term.getInt() : 0}, terms.size());
      if (isNew)
        terms.push_back({index, term ? term.getInt() : 0, weight ? weight.getValueAsDouble() : 1.0});
      if (floor) // Only a count has one.
        terms[place->second].floor = floor.getValueAsDouble();
    }
  }
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term &a, const Term &b) { return std::tie(a.loss, a.term) < std::tie(b.loss, b.term); });
  for (const Term &term : terms) {
    const GraphLoss &spec = input.graph->losses[term.loss];
    auto loss = std::make_unique<fb::LossT>();
    loss->name = spec.name;
    loss->weight = spec.weight;
    loss->from_graph = spec.fromGraph;
    loss->term_weight = term.weight;
    loss->count_floor = term.floor;
    loss->note = spec.note;
    lossIndex[{spec.name, term.term}] = plan.losses.size();
    plan.losses.push_back(std::move(loss));
  }
}

} // namespace maestro::planner
