#include "planner/driver/atom_trials.h"

#include "ir/section/section.h"
#include "passes/attributes.h"
#include "plan/capacity.h"
#include "planner/driver/layouts.h"
#include "planner/emit/executable_lowering.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <set>

namespace maestro::planner {
namespace {

using cost_models::AtomicModel;
using cost_models::AtomicSection;
using cost_models::CompoundModel;
using cost_models::StageModel;

/// As regions of a plan are.
constexpr uint64_t kAlignment = 64;

/// Only parameters that the trial's programs read; without those that get no gradient there.
GraphSummary summaryOf(mlir::ModuleOp programs, const GraphSummary &graph) {
  std::set<std::string> read, withGradient;
  for (auto op : programs.getOps<section::SectionOp>())
    for (std::string &name : parametersOf(op.getBody()))
      read.insert(std::move(name));
  programs.walk([&](mlir::func::FuncOp function) {
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (auto name = function.getResultAttrOfType<mlir::StringAttr>(i, attributes::kGradient))
        withGradient.insert(name.getValue().str());
  });
  GraphSummary summary = graph;
  std::erase_if(summary.parameters, [&](const GraphParameter &parameter) { return !read.count(parameter.fullName); });
  for (GraphParameter &parameter : summary.parameters)
    parameter.trainable = parameter.trainable && withGradient.count(parameter.fullName);
  return summary;
}

/// Two neighbours of a class of which there is no pair: what both hold, and what passes between them.
StageModel doubled(const StageModel &alone, const cost_models::AtomTensor *between) {
  StageModel pair = alone;
  pair.parameters = alone.parameters * 2;
  auto twice = [](wavefront::Cost &cost) {
    for (wavefront::CostTerm &term : cost.terms)
      term.picoseconds *= 2;
  };
  for (size_t m = 0; m < pair.at.size(); ++m) {
    twice(pair.at[m].forward);
    twice(pair.at[m].backward);
    twice(pair.at[m].weightGradient);
    for (cost_models::TaskCosts &kind : pair.at[m].otherKinds) {
      twice(kind.forward);
      twice(kind.backward);
      twice(kind.weightGradient);
    }
    pair.at[m].slotBytes = 2 * pair.at[m].slotBytes + (between ? between->slotBytes[m] : 0);
  }
  return pair;
}

class Builder {
public:
  Builder(const AtomGraph &graph, const std::vector<int64_t> &microBatches) : graph(graph) {
    model.microBatches = microBatches;
  }

  void addTables(const CompoundModel &trial) {
    model.dims = trial.dims;
    for (size_t s = 0; s < graph.sections.size(); ++s) {
      const cost_models::SectionModel &source = trial.sections[s];
      model.sections.push_back({source.name,
                                source.trains,
                                source.activeDims,
                                source.capacities,
                                graph.sections[s].classOf,
                                {},
                                {},
                                source.presence,
                                source.unpadded});
    }
    for (const AtomTensor &tensor : graph.tensors)
      addTensor(tensor);
  }

  /// The classes of a section as this trial has them.
  void addClasses(size_t s, Recompute recompute, bool splits, const CompoundModel &trial) {
    const SectionChain &chain = graph.sections[s];
    AtomicSection &section = model.sections[s];
    size_t count = *std::max_element(chain.classOf.begin(), chain.classOf.end()) + 1;
    std::vector<cost_models::AtomClass> classes(count);
    std::vector<std::vector<unsigned>> stages = chain.trialStages();
    for (size_t stage = 0; stage < stages.size(); ++stage) {
      cost_models::AtomClass &own = classes[chain.classOf[stages[stage].front()]];
      StageModel &measured = stages[stage].size() == 2 ? own.pair : own.alone;
      if (measured.at.empty())
        measured = trial.sections[s].stages[stage];
    }
    for (uint32_t c = 0; c < count; ++c)
      if (classes[c].pair.at.empty())
        classes[c].pair =
            doubled(classes[c].alone, section.trains ? betweenNeighbours(static_cast<uint32_t>(s), c) : nullptr);
    (splits ? section.splitClasses : section.classes)[static_cast<size_t>(recompute)] = std::move(classes);
  }

  /// Parameters that stages of one section share.
  void addTied(mlir::ModuleOp programs, const GraphSummary &summary) {
    std::map<std::pair<uint32_t, std::string>, std::vector<uint32_t>> readers;
    uint32_t section = 0;
    std::string name;
    for (auto op : programs.getOps<section::SectionOp>()) {
      std::string own = op.getSectionName().str();
      section += !name.empty() && own != name;
      name = std::move(own);
      std::vector<std::vector<unsigned>> stages = graph.sections[section].trialStages();
      for (const std::string &parameter : parametersOf(op.getBody()))
        readers[{section, parameter}].push_back(stages[static_cast<size_t>(op.getStage())].front());
    }
    for (const auto &[key, atoms] : readers) {
      if (atoms.size() < 2)
        continue;
      auto parameter =
          std::find_if(summary.parameters.begin(), summary.parameters.end(),
                       [&, &full = key.second](const GraphParameter &own) { return own.fullName == full; });
      if (parameter == summary.parameters.end())
        continue;
      uint64_t bytes = byteSize(parameter->dtype), gradient = 0;
      for (int64_t dim : parameter->shape)
        bytes *= static_cast<uint64_t>(dim);
      gradient = parameter->trainable ? bytes : 0;
      model.tied.push_back({key.first, atoms, {bytes, gradient, 0}});
    }
  }

  AtomicModel model;

private:
  /// In any micro-batch of this size.
  uint64_t mostBytes(const DimExpr &bytes, const cost_models::MicroBatchCapacity &own) const {
    plan::Capacity capacity{own.dims, {}, {}};
    for (const wavefront::Dim &dim : model.dims)
      capacity.multiples.push_back(dim.multipleOf);
    for (const wavefront::Area &area : own.areas)
      capacity.areas.push_back({area.rows, area.padded, area.capacity});
    int64_t most = 0;
    for (const std::vector<int64_t> &sizes : plan::largestMicroBatches(capacity)) {
      auto sizeOf = [&](std::string_view name) -> std::optional<int64_t> {
        for (size_t d = 0; d < model.dims.size(); ++d)
          if (model.dims[d].name == name)
            return sizes[d];
        return std::nullopt;
      };
      most = std::max(most, bytes.upperBound(sizeOf).value_or(0));
    }
    return static_cast<uint64_t>(most);
  }

  void addTensor(const AtomTensor &source) {
    cost_models::AtomTensor tensor;
    std::tie(tensor.section, tensor.atom) = source.producer;
    tensor.consumers.assign(source.consumers.begin(), source.consumers.end());
    tensor.gradient = source.gradient;
    DimExpr bytes = nn::TensorType(source.type).getByteSize();
    for (const DimExpr::Term &term : bytes.terms()) {
      cost_models::BytesTerm own{static_cast<double>(term.coefficient), {}};
      for (const DimExpr::Atom &atom : term.atoms)
        for (uint32_t d = 0; d < model.dims.size(); ++d)
          if (atom.kind == DimExpr::AtomKind::Symbol && model.dims[d].name == atom.name)
            own.dims.push_back(d);
      tensor.bytes.push_back(std::move(own));
    }
    auto slotsIn = [&](uint32_t section) {
      std::vector<uint64_t> slots;
      for (const cost_models::MicroBatchCapacity &capacity : model.sections[section].capacities)
        slots.push_back((mostBytes(bytes, capacity) + kAlignment - 1) / kAlignment * kAlignment);
      return slots;
    };
    tensor.slotBytes = slotsIn(tensor.section);
    for (auto [section, atom] : tensor.consumers)
      if (section != tensor.section)
        tensor.slotBytesOf[section] = slotsIn(section);
    model.tensors.push_back(std::move(tensor));
  }

  const cost_models::AtomTensor *betweenNeighbours(uint32_t section, uint32_t ofClass) const {
    const std::vector<unsigned> &classOf = graph.sections[section].classOf;
    for (const cost_models::AtomTensor &tensor : model.tensors)
      for (auto [consumer, atom] : tensor.consumers)
        if (tensor.section == section && consumer == section && atom == tensor.atom + 1 && tensor.gradient &&
            classOf[atom] == ofClass && classOf[tensor.atom] == ofClass)
          return &tensor;
    return nullptr;
  }

  const AtomGraph &graph;
};

/// One trial's programs, emitted for each size.
Result<CompoundModel> emitTrial(const AtomGraph &graph, const EmitInput &base, const GraphSummary &summary,
                                mlir::ModuleOp programs, const std::vector<int64_t> &microBatches) {
  EmitInput input = base;
  input.sections = programs;
  input.graph = &summary;
  input.leastSlots = 2; // So that what a micro-batch in flight holds is told from what a station needs once.
  for (const SectionChain &chain : graph.sections)
    input.layouts.at(chain.name).stages = static_cast<int64_t>(chain.trialStages().size());
  return collectModel(std::move(input), microBatches);
}

/// Unless the user says no.
bool maySplit(const PartitionOptions &partition, const std::string &section) {
  for (const std::string &name : {section, std::string("*")})
    if (auto own = partition.splitBackward.find(name); own != partition.splitBackward.end())
      return own->second > 0;
  return true;
}

} // namespace

size_t trialOperators(const AtomGraph &graph) {
  size_t count = 0;
  for (const SectionChain &chain : graph.sections)
    for (const std::vector<unsigned> &stage : chain.trialStages())
      for (unsigned atom : stage)
        count += chain.atoms[atom].size();
  return count;
}

Result<AtomicModel> collectAtoms(const AtomGraph &graph, const EmitInput &base, const PartitionOptions &partition,
                                 const std::vector<int64_t> &microBatches, const MakePrograms &makePrograms) {
  PartitionOptions options = partition;
  options.forTrial = true;
  Builder builder(graph, microBatches);
  for (bool splits : {false, true})
    for (Recompute choice : kRecomputes) {
      bool isFirst = !splits && choice == Recompute::None;
      std::vector<size_t> concerned;
      for (size_t s = 0; s < graph.sections.size(); ++s)
        if (isFirst || (builder.model.sections[s].trains && (!splits || maySplit(partition, graph.sections[s].name))))
          concerned.push_back(s);
      if (concerned.empty())
        continue;
      options.recompute.clear();
      options.splitBackward.clear();
      for (size_t s : concerned) {
        options.recompute[graph.sections[s].name] = choice;
        options.splitBackward[graph.sections[s].name] = splits ? kAllStages : 0;
      }
      mlir::OwningOpRef<mlir::ModuleOp> programs = makePrograms(options);
      if (!programs)
        return Status::internal("the programs of a trial cannot be made");
      GraphSummary summary = summaryOf(*programs, *base.graph);
      MAESTRO_ASSIGN(CompoundModel trial, emitTrial(graph, base, summary, *programs, microBatches));
      if (isFirst) {
        builder.addTables(trial);
        builder.addTied(*programs, summary);
      }
      for (size_t s : concerned)
        builder.addClasses(s, choice, splits, trial);
    }
  MAESTRO_TRY(cost_models::check(builder.model));
  return std::move(builder.model);
}

} // namespace maestro::planner
