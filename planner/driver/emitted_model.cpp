#include "planner/driver/emitted_model.h"

#include <algorithm>
#include <limits>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;
using cost_models::CompoundModel;
using cost_models::EdgeModel;
using cost_models::StageCosts;
using cost_models::StageModel;

constexpr int64_t kUnbounded = int64_t{1} << 40;

wavefront::Cost costOf(const std::vector<std::unique_ptr<fb::CostTermT>> &terms) {
  wavefront::Cost cost;
  for (const auto &term : terms)
    cost.terms.push_back({term->picoseconds, term->symbols});
  return cost;
}

const fb::ProgramT *programOf(const fb::ExecutableT &executable, fb::ProgramKind kind) {
  for (const auto &program : executable.programs)
    if (program->kind == kind)
      return program.get();
  return nullptr;
}

cost_models::TaskCosts tasksOf(const fb::ExecutableT &executable) {
  auto cost = [&](fb::ProgramKind kind) {
    const fb::ProgramT *program = programOf(executable, kind);
    return program ? costOf(program->cost) : wavefront::Cost();
  };
  bool hasForward = programOf(executable, fb::ProgramKind::Forward);
  return {cost(hasForward ? fb::ProgramKind::Forward : fb::ProgramKind::Evaluate), cost(fb::ProgramKind::Backward),
          cost(fb::ProgramKind::WeightGradient)};
}

/// Fills a model from plans.
class Reader {
public:
  Reader(CompoundModel &model, const EmittedPlan &emitted) : model(model), emitted(emitted), plan(emitted.tables) {}

  /// What does not depend on the size of micro-batches.
  void addTables() {
    for (const auto &symbol : plan.symbols)
      model.dims.push_back(
          {symbol->name, symbol->combine == fb::Combine::Sum, symbol->multiple_of, !symbol->unpadded.empty()});
    for (const auto &table : plan.sections) {
      cost_models::SectionModel &section = model.sections.emplace_back();
      section.name = table->name;
      section.trains = table->trains;
      section.activeDims = table->active;
      section.unpadded = table->unpadded;
      section.presence = emitted.presence[model.sections.size() - 1];
      section.stages.resize(table->layout->stages);
      section.splitsBackward = table->layout->split_backward > 0;
    }
    for (const auto &table : plan.edges)
      model.edges.push_back({table->producer,
                             table->producer_stage,
                             table->consumer,
                             table->consumer_stage,
                             table->carries_gradient,
                             table->held_until_backward,
                             emitted.edgeBytes[model.edges.size()],
                             {},
                             {}});
  }

  void addSize(size_t number, size_t sizes) {
    resizeSlots(sizes);
    for (const auto &executable : plan.executables) {
      if (executable->stage == 0)
        model.sections[executable->section].capacities.push_back(capacityOf(*executable));
      StageModel &stage = model.sections[executable->section].stages[executable->stage];
      stage.at.emplace_back();
      addStage(*executable, stage, number);
    }
  }

  /// A plan, in which each section has a size of its own: a size for each section.
  void addAllSizes() {
    size_t sizes = model.sections.size();
    for (const auto &section : plan.sections)
      model.microBatches.push_back(section->micro_batch_samples);
    resizeSlots(sizes);
    for (const auto &executable : plan.executables) {
      size_t number = executable->section;
      model.sections[number].capacities.assign(sizes, capacityOf(*executable));
      StageModel &stage = model.sections[number].stages[executable->stage];
      stage.at.resize(sizes);
      addStage(*executable, stage, number);
    }
  }

  cost_models::CompoundLayout layout() const {
    cost_models::CompoundLayout layout(model.sections.size());
    for (const auto &executable : plan.executables)
      layout[executable->section].microBatch = executable->section;
    for (const auto &station : plan.stations) {
      const fb::ExecutableT &executable = *plan.executables[station->executable];
      cost_models::SectionChoice &own = layout[executable.section];
      own.devices.resize(std::max<size_t>(own.devices.size(), station->replica + 1));
      std::vector<uint32_t> &replica = own.devices[station->replica];
      replica.resize(model.sections[executable.section].stages.size());
      replica[executable.stage] = plan.ranks[station->ranks.front()]->device;
    }
    return layout;
  }

  /// The times of the size that was added last, on the next kind of device.
  void addKind() {
    for (const auto &executable : plan.executables)
      model.sections[executable->section].stages[executable->stage].at.back().otherKinds.push_back(
          tasksOf(*executable));
  }

private:
  void resizeSlots(size_t sizes) {
    for (EdgeModel &edge : model.edges) {
      edge.slotBytes.resize(sizes, 0);
      edge.gradientSlotBytes.resize(sizes, 0);
    }
  }

  cost_models::MicroBatchCapacity capacityOf(const fb::ExecutableT &executable) const {
    cost_models::MicroBatchCapacity capacity{executable.samples, std::vector(plan.symbols.size(), kUnbounded), {}};
    for (const auto &bound : executable.bounds)
      capacity.dims[bound->symbol] = bound->value;
    for (const auto &area : executable.areas)
      capacity.areas.push_back({area->rows, area->padded, area->value});
    return capacity;
  }

  void addStage(const fb::ExecutableT &executable, StageModel &stage, size_t number) {
    StageCosts &costs = stage.at[number];
    cost_models::TaskCosts tasks = tasksOf(executable);
    costs.forward = std::move(tasks.forward);
    costs.backward = std::move(tasks.backward);
    costs.weightGradient = std::move(tasks.weightGradient);
    uint64_t regions = 0;
    stage.parameters = {};
    for (const auto &region : executable.regions) {
      regions += region->bytes * region->copies;
      switch (region->kind) {
      case fb::RegionKind::Slot:
        costs.slotBytes = region->bytes;
        break;
      case fb::RegionKind::Workspace:
        costs.workspaceBytes = region->bytes * region->copies;
        break;
      case fb::RegionKind::Channel: {
        EdgeModel &edge = model.edges[region->edge];
        (region->gradient ? edge.gradientSlotBytes : edge.slotBytes)[number] = region->bytes;
        break;
      }
      case fb::RegionKind::Gradients:
        stage.parameters.gradients += region->bytes;
        break;
      case fb::RegionKind::OptimizerState:
        stage.parameters.state += region->bytes;
        break;
      default:
        stage.parameters.values += region->bytes * region->copies;
      }
    }
    for (const auto &program : executable.programs)
      if (program->kind == fb::ProgramKind::Update)
        stage.parameters.updateFlops += static_cast<uint64_t>(plan.exprs[program->flops].a()); // A constant.
    costs.hostBytes = executable.peak_bytes - std::min(executable.peak_bytes, regions);
  }

  CompoundModel &model;
  const EmittedPlan &emitted;
  const fb::PlanT &plan;
};

/// One device of the kind, with as much memory as anything needs.
cost_models::Machine deviceAlone(const cost_models::Machine &machine, uint32_t kind) {
  cost_models::Machine alone = cost_models::machineOfOne(machine, kind);
  alone.kinds.front().memoryBytes = std::numeric_limits<uint64_t>::max();
  return alone;
}

/// A size of micro-batches for each section.
struct EmittedModel {
  CompoundModel model;
  cost_models::CompoundLayout layout;
};

Result<EmittedModel> emittedModel(const EmittedPlan &emitted, const std::map<std::string, SectionLayout> &layouts) {
  EmittedModel read;
  Reader reader(read.model, emitted);
  reader.addTables();
  reader.addAllSizes();
  read.layout = reader.layout();
  for (size_t s = 0; s < read.layout.size(); ++s)
    read.layout[s].moreInFlight = static_cast<uint32_t>(layouts.at(read.model.sections[s].name).moreInFlight);
  MAESTRO_TRY(cost_models::check(read.model));
  return read;
}

} // namespace

Result<CompoundModel> trialModel(EmitInput input, const std::vector<int64_t> &microBatches) {
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
    Reader reader(model, emitted);
    if (number == 0)
      reader.addTables();
    reader.addSize(number, microBatches.size());
    for (uint32_t kind = 1; kind < machine.kinds.size(); ++kind) {
      input.machine = deviceAlone(machine, kind);
      MAESTRO_ASSIGN(EmittedPlan other, emitPlan(input));
      Reader(model, other).addKind();
    }
  }
  MAESTRO_TRY(cost_models::check(model));
  return model;
}

Result<cost_models::Simulation> simulateEmitted(const EmittedPlan &emitted,
                                                const std::map<std::string, SectionLayout> &layouts,
                                                const cost_models::Machine &machine, const StepSizes &sizes,
                                                cost_models::Simulator &simulator, bool tunes) {
  MAESTRO_ASSIGN(EmittedModel own, emittedModel(emitted, layouts));
  MAESTRO_ASSIGN(cost_models::Simulation step,
                 tunes ? simulator.runTuned(own.model, machine, own.layout)
                       : simulator.run(own.model, machine, own.layout, wavefront::Order::Wavefront));
  if (!sizes.others.empty())
    MAESTRO_TRY(simulator.addSteps(sizes.others, own.model, machine, own.layout, step));
  return step;
}

} // namespace maestro::planner
