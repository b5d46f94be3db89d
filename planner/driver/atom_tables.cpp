#include "planner/driver/atom_tables.h"

#include "ir/section/section.h"
#include "plan/capacity.h"
#include "planner/emit/executable_lowering.h"

#include <algorithm>
#include <map>
#include <string>

namespace maestro::planner {
namespace {

using cost_models::AtomicModel;

/// As regions of a plan are.
constexpr uint64_t kAlignment = 64;

/// In any micro-batch of this size.
uint64_t mostBytes(const AtomicModel &model, const DimExpr &bytes, const cost_models::MicroBatchCapacity &own) {
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

void addTensor(AtomicModel &model, const AtomTensor &source) {
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
      slots.push_back((mostBytes(model, bytes, capacity) + kAlignment - 1) / kAlignment * kAlignment);
    return slots;
  };
  tensor.slotBytes = slotsIn(tensor.section);
  for (auto [section, atom] : tensor.consumers)
    if (section != tensor.section)
      tensor.slotBytesOf[section] = slotsIn(section);
  model.tensors.push_back(std::move(tensor));
}

} // namespace

AtomicModel atomTables(const AtomGraph &graph, const cost_models::CompoundModel &trial) {
  AtomicModel model;
  model.dims = trial.dims;
  model.microBatches = trial.microBatches;
  for (size_t s = 0; s < graph.sections.size(); ++s) {
    const cost_models::SectionModel &source = trial.sections[s];
    model.sections.push_back({source.name,
                              source.trains,
                              source.activeDims,
                              source.capacities,
                              graph.sections[s].classOf,
                              {},
                              source.presence,
                              source.unpadded});
  }
  for (const AtomTensor &tensor : graph.tensors)
    addTensor(model, tensor);
  return model;
}

std::vector<cost_models::TiedParameter> tiedParameters(const AtomGraph &graph, mlir::ModuleOp programs,
                                                       const GraphSummary &summary) {
  std::vector<cost_models::TiedParameter> tied;
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
    auto parameter = std::find_if(summary.parameters.begin(), summary.parameters.end(),
                                  [&, &full = key.second](const GraphParameter &own) { return own.fullName == full; });
    if (parameter == summary.parameters.end())
      continue;
    uint64_t bytes = byteSize(parameter->dtype), gradient = 0;
    for (int64_t dim : parameter->shape)
      bytes *= static_cast<uint64_t>(dim);
    gradient = parameter->trainable ? bytes : 0;
    tied.push_back({key.first, atoms, {bytes, gradient, 0}});
  }
  return tied;
}

} // namespace maestro::planner
