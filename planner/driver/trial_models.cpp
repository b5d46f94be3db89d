#include "planner/driver/trial_models.h"

#include "plan/capacity.h"
#include "plan/dims.h"
#include "plan/plan_generated.h"

#include <algorithm>
#include <limits>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;
using cost_models::CompoundModel;
using cost_models::EdgeModel;
using cost_models::StageCosts;
using cost_models::StageModel;

template <typename Program> wavefront::Cost costOf(const Program *holder) {
  wavefront::Cost cost;
  if (holder && holder->cost())
    for (const fb::CostTerm *term : *holder->cost())
      cost.terms.push_back({term->picoseconds(), {term->symbols()->begin(), term->symbols()->end()}});
  return cost;
}

const fb::Program *programOf(const fb::Executable &executable, fb::ProgramKind kind) {
  for (const fb::Program *program : *executable.programs())
    if (program->kind() == kind)
      return program;
  return nullptr;
}

class Collector {
public:
  Collector(CompoundModel &model, const EmittedPlan &emitted)
      : model(model), emitted(emitted), plan(*fb::GetPlan(emitted.bytes.data())) {} // Verified when it was made.

  /// What does not depend on the size of micro-batches.
  void addTables() {
    for (const fb::Symbol *symbol : *plan.symbols())
      model.dims.push_back({symbol->name()->str(), symbol->combine() == fb::Combine::Sum, symbol->multiple_of(),
                            symbol->unpadded() != nullptr});
    for (const fb::Section *table : *plan.sections()) {
      cost_models::SectionModel &section = model.sections.emplace_back();
      section.name = table->name()->str();
      section.trains = table->trains();
      if (table->active())
        section.activeDims.assign(table->active()->begin(), table->active()->end());
      if (table->unpadded())
        section.unpadded.assign(table->unpadded()->begin(), table->unpadded()->end());
      section.presence = emitted.presence[model.sections.size() - 1];
      section.stages.resize(table->layout()->stages());
      section.splitsBackward = table->layout()->split_backward() > 0;
    }
    for (const fb::Edge *table : *plan.edges())
      model.edges.push_back({table->producer(),
                             table->producer_stage(),
                             table->consumer(),
                             table->consumer_stage(),
                             table->carries_gradient(),
                             table->held_until_backward(),
                             emitted.edgeBytes[model.edges.size()],
                             {},
                             {}});
  }

  void addSize(size_t number, size_t sizes) {
    for (EdgeModel &edge : model.edges) {
      edge.slotBytes.resize(sizes, 0);
      edge.gradientSlotBytes.resize(sizes, 0);
    }
    for (const fb::Executable *executable : *plan.executables()) {
      if (executable->stage() == 0)
        model.sections[executable->section()].capacities.push_back(capacityOf(*executable));
      StageModel &stage = model.sections[executable->section()].stages[executable->stage()];
      stage.at.emplace_back();
      addStage(*executable, stage, number);
    }
  }

  /// A plan, in which each section has a size of its own: a size for each section.
  void addAllSizes() {
    size_t sizes = model.sections.size();
    for (const fb::Section *section : *plan.sections())
      model.microBatches.push_back(section->micro_batch_samples());
    for (EdgeModel &edge : model.edges) {
      edge.slotBytes.resize(sizes, 0);
      edge.gradientSlotBytes.resize(sizes, 0);
    }
    for (const fb::Executable *executable : *plan.executables()) {
      size_t number = executable->section();
      model.sections[number].capacities.assign(sizes, capacityOf(*executable));
      StageModel &stage = model.sections[executable->section()].stages[executable->stage()];
      stage.at.resize(sizes);
      addStage(*executable, stage, number);
    }
  }

  cost_models::CompoundLayout layout() const {
    cost_models::CompoundLayout layout(model.sections.size());
    for (const fb::Executable *executable : *plan.executables())
      layout[executable->section()].microBatch = executable->section();
    for (const fb::Station *station : *plan.stations()) {
      const fb::Executable *executable = plan.executables()->Get(station->executable());
      cost_models::SectionChoice &own = layout[executable->section()];
      own.devices.resize(std::max<size_t>(own.devices.size(), station->replica() + 1));
      std::vector<uint32_t> &replica = own.devices[station->replica()];
      replica.resize(model.sections[executable->section()].stages.size());
      replica[executable->stage()] = plan.ranks()->Get(station->ranks()->Get(0))->device();
    }
    return layout;
  }

  /// The times of the size that was added last, on the next kind of device.
  void addKind() {
    for (const fb::Executable *executable : *plan.executables())
      model.sections[executable->section()].stages[executable->stage()].at.back().otherKinds.push_back(
          tasksOf(*executable));
  }

private:
  static constexpr int64_t kUnbounded = int64_t{1} << 40;

  cost_models::MicroBatchCapacity capacityOf(const fb::Executable &executable) const {
    plan::Capacity own = plan::capacityOf(plan, executable);
    std::replace(own.bounds.begin(), own.bounds.end(), plan::DimTable::kUndefined, kUnbounded);
    cost_models::MicroBatchCapacity capacity{executable.samples(), std::move(own.bounds), {}};
    for (const plan::Capacity::Area &area : own.areas)
      capacity.areas.push_back({area.rows, area.padded, area.value});
    return capacity;
  }

  static cost_models::TaskCosts tasksOf(const fb::Executable &executable) {
    const fb::Program *forward = programOf(executable, fb::ProgramKind::Forward);
    return {costOf(forward ? forward : programOf(executable, fb::ProgramKind::Evaluate)),
            costOf(programOf(executable, fb::ProgramKind::Backward)),
            costOf(programOf(executable, fb::ProgramKind::WeightGradient))};
  }

  void addStage(const fb::Executable &executable, StageModel &stage, size_t number) {
    StageCosts &costs = stage.at[number];
    cost_models::TaskCosts tasks = tasksOf(executable);
    costs.forward = std::move(tasks.forward);
    costs.backward = std::move(tasks.backward);
    costs.weightGradient = std::move(tasks.weightGradient);
    uint64_t regions = 0;
    stage.parameters = {};
    for (const fb::Region *region : *executable.regions()) {
      regions += region->bytes() * region->copies();
      switch (region->kind()) {
      case fb::RegionKind::Slot:
        costs.slotBytes = region->bytes();
        break;
      case fb::RegionKind::Workspace:
        costs.workspaceBytes = region->bytes() * region->copies();
        break;
      case fb::RegionKind::Channel: {
        EdgeModel &edge = model.edges[region->edge()];
        (region->gradient() ? edge.gradientSlotBytes : edge.slotBytes)[number] = region->bytes();
        break;
      }
      case fb::RegionKind::Gradients:
        stage.parameters.gradients += region->bytes();
        break;
      case fb::RegionKind::OptimizerState:
        stage.parameters.state += region->bytes();
        break;
      default:
        stage.parameters.values += region->bytes() * region->copies();
      }
    }
    costs.hostBytes = executable.peak_bytes() - std::min(executable.peak_bytes(), regions);
  }

  CompoundModel &model;
  const EmittedPlan &emitted;
  const fb::Plan &plan;
};

/// One device of the kind, with as much memory as anything needs.
cost_models::Machine deviceAlone(const cost_models::Machine &machine, uint32_t kind) {
  cost_models::Machine alone = cost_models::machineOfOne(machine, kind);
  alone.kinds.front().memoryBytes = std::numeric_limits<uint64_t>::max();
  return alone;
}

} // namespace

Result<CompoundModel> collectModel(EmitInput input, const std::vector<int64_t> &microBatches) {
  for (cost_models::DeviceModel &kind : input.machine.kinds)
    kind.rates.task = cost_models::Seconds(0); // Of tasks, which the layout makes of one or many of these programs.
  CompoundModel model;
  model.microBatches = microBatches;
  cost_models::Machine machine = input.machine;
  const std::map<std::string, SectionLayout> base = input.layouts;
  for (size_t number = 0; number < microBatches.size(); ++number) {
    for (auto &[name, layout] : input.layouts) {
      const SectionLayout &pinned = base.at(name); // Other sizes are as they would be without the pin.
      layout.isCountedInSamples = pinned.isCountedInSamples && pinned.microBatch == microBatches[number];
      layout.microBatch = microBatches[number];
      layout.devices = {std::vector<uint32_t>(static_cast<size_t>(layout.stages), 0)};
    }
    input.machine = deviceAlone(machine, 0);
    MAESTRO_ASSIGN(EmittedPlan emitted, emitPlan(input));
    Collector collector(model, emitted);
    if (number == 0)
      collector.addTables();
    collector.addSize(number, microBatches.size());
    for (uint32_t kind = 1; kind < machine.kinds.size(); ++kind) {
      input.machine = deviceAlone(machine, kind);
      MAESTRO_ASSIGN(EmittedPlan other, emitPlan(input));
      Collector(model, other).addKind();
    }
  }
  MAESTRO_TRY(cost_models::check(model));
  return model;
}

Result<EmittedModel> readModel(const EmittedPlan &emitted, const std::map<std::string, SectionLayout> &layouts) {
  EmittedModel read;
  Collector collector(read.model, emitted);
  collector.addTables();
  collector.addAllSizes();
  read.layout = collector.layout();
  for (size_t s = 0; s < read.layout.size(); ++s)
    read.layout[s].moreInFlight = static_cast<uint32_t>(layouts.at(read.model.sections[s].name).moreInFlight);
  MAESTRO_TRY(cost_models::check(read.model));
  return read;
}

} // namespace maestro::planner
