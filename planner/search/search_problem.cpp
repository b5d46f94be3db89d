#include "planner/search/search_problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace maestro::planner {
namespace {

Status wrong(std::string what) { return Status::invalidInput("search problem: " + what); }

Status checkPins(const SearchProblem &problem) {
  const AtomicModel &model = problem.model;
  if (problem.pins.size() != model.sections.size())
    return wrong(fmt::format("has pins for {} of {} sections", problem.pins.size(), model.sections.size()));
  for (size_t s = 0; s < problem.pins.size(); ++s) {
    const SearchPins &pins = problem.pins[s];
    const std::string &name = model.sections[s].name;
    if (pins.dataParallel && *pins.dataParallel < 1)
      return wrong("section '" + name + "' is pinned to no replicas");
    if (pins.microBatch && *pins.microBatch >= model.microBatches.size())
      return wrong(fmt::format("section '{}' is pinned to micro-batch {} of {}", name, *pins.microBatch,
                               model.microBatches.size()));
    if (pins.devices && pins.devices->empty())
      return wrong("section '" + name + "' is pinned to no devices");
    for (uint32_t device : pins.devices.value_or(std::vector<uint32_t>()))
      if (device >= problem.machine.devices)
        return wrong(fmt::format("section '{}' is pinned to device {} of {}", name, device, problem.machine.devices));
    if (pins.stages && (*pins.stages < 1 || *pins.stages > model.sections[s].classOf.size()))
      return wrong(fmt::format("section '{}' is pinned to {} stages, and has {} places to hold one", name, *pins.stages,
                               model.sections[s].classOf.size()));
    RecomputeChoice recompute = pins.recompute.value_or(RecomputeChoice{});
    if (pins.recompute && !model.sections[s].has(recompute))
      return wrong(fmt::format("section '{}' is pinned to recompute '{}', and has no such choice (of {} layers)", name,
                               textOf(*pins.recompute), model.sections[s].classOf.size()));
    if (pins.splitStages.value_or(0) > 0 && !model.sections[s].has(recompute, true))
      return wrong(fmt::format("section '{}' is pinned to a split backward, and has no such choice", name));
    recompute.lossChunks = pins.lossChunks.value_or(1);
    if (!model.sections[s].has(recompute))
      return wrong(fmt::format("section '{}' is pinned to losses in {} chunks, and has no such choice", name,
                               recompute.lossChunks));
  }
  return Status();
}

} // namespace

bool obeys(const SearchPins &pins, const SectionOption &option, const cost_models::SectionChoice &placed) {
  if ((pins.dataParallel && *pins.dataParallel != option.replicas) ||
      (pins.microBatch && *pins.microBatch != option.microBatch) || (pins.stages && *pins.stages != option.stages()) ||
      (pins.recompute && !pins.recompute->isAlike(option.cut.recompute)) ||
      (pins.lossChunks && *pins.lossChunks != option.cut.recompute.lossChunks) ||
      (pins.splitStages && std::min(*pins.splitStages, option.stages()) != option.cut.splitStages) ||
      (pins.moreInFlight && *pins.moreInFlight != option.moreInFlight))
    return false;
  std::set<uint32_t> devices = devicesOf(placed);
  return !pins.devices || std::all_of(devices.begin(), devices.end(), [&](uint32_t device) {
    return std::find(pins.devices->begin(), pins.devices->end(), device) != pins.devices->end();
  });
}

bool obeys(const SearchProblem &problem, const Layout &layout) {
  CompoundLayout choices = place(layout, problem.machine);
  for (size_t s = 0; s < choices.size(); ++s)
    if (!obeys(problem.pins[s], layout.sections[s], choices[s]))
      return false;
  return true;
}

Status check(const SearchProblem &problem) {
  MAESTRO_TRY(cost_models::check(problem.machine));
  MAESTRO_TRY(cost_models::check(problem.model));
  MAESTRO_TRY(checkPins(problem));
  size_t dims = problem.model.dims.size();
  if (problem.steps.empty())
    return wrong("has no steps to simulate");
  for (const cost_models::SampleSizes &step : problem.steps)
    if (step.empty() || step.size() % dims != 0)
      return wrong(fmt::format("a step has {} sizes for {} dims", step.size(), dims));
  return Status();
}

bool mayGainBySplitting(const SearchProblem &problem, uint32_t section, size_t stages) {
  const cost_models::AtomicSection &chain = problem.model.sections[section];
  if (!chain.has(Recompute::None, true) || problem.pins[section].splitStages.value_or(1) == 0)
    return false;
  return stages > 1 ||
         std::any_of(problem.model.tensors.begin(), problem.model.tensors.end(),
                     [&](const cost_models::AtomTensor &tensor) {
                       return tensor.gradient && tensor.section != section &&
                              std::any_of(tensor.consumers.begin(), tensor.consumers.end(),
                                          [&](const auto &consumer) { return consumer.first == section; });
                     });
}

bool mayGainBySplitting(const SearchProblem &problem, uint32_t section) {
  size_t atoms = problem.model.sections[section].classOf.size();
  return mayGainBySplitting(problem, section,
                            problem.pins[section].stages.value_or(std::min<size_t>(atoms, problem.machine.devices)));
}

bool isRepeatedSize(const AtomicModel &model, uint32_t section, uint32_t microBatch) {
  const std::vector<cost_models::MicroBatchCapacity> &capacities = model.sections[section].capacities;
  return microBatch + 1 < capacities.size() && isSame(capacities[microBatch], capacities[microBatch + 1]);
}

Status verify(const SearchProblem &problem, const SearchResult &result) {
  auto broken = [](std::string what) { return Status::internal("search result: " + what); };
  MAESTRO_TRY(cost_models::check(problem.model, cutsOf(result.layout)));
  CompoundModel model = modelOf(problem.model, result.layout);
  for (const DeviceGroup &group : result.layout.groups)
    if (group.width != 1)
      return broken(fmt::format("a group has stations of {} devices, which place() does not number", group.width));
  CompoundLayout choices = place(result.layout, problem.machine);
  MAESTRO_TRY(cost_models::check(model, problem.machine, choices));
  for (size_t s = 0; s < choices.size(); ++s)
    if (!obeys(problem.pins[s], result.layout.sections[s], choices[s]))
      return broken("section '" + model.sections[s].name + "' is not as pinned");
  std::vector<uint64_t> bytes = cost_models::deviceBytes(model, problem.machine, choices);
  for (uint32_t device = 0; device < bytes.size(); ++device)
    if (bytes[device] > problem.machine.memoryBytes(device))
      return broken(fmt::format("device {} holds {} bytes and has {}", device, bytes[device],
                                problem.machine.memoryBytes(device)));
  cost_models::Simulator simulator(problem.steps, problem.budget.tasksAtOnce, result.hints, problem.budget.nsPerTask);
  MAESTRO_ASSIGN(cost_models::Simulation again,
                 simulator.run(model, problem.machine, choices, wavefront::Order::Wavefront));
  if (again.stepSeconds != result.simulation.stepSeconds)
    return broken(fmt::format("a step takes {} s, not {}", again.stepSeconds, result.simulation.stepSeconds));
  for (const ComparedLayout &row : result.compared)
    if (row.possible && !row.inFileOrder && !row.isWithoutPins &&
        row.simulation.stepSeconds < result.simulation.stepSeconds)
      return broken(fmt::format("'{}' takes {} s, the result {}", row.name, row.simulation.stepSeconds,
                                result.simulation.stepSeconds));
  for (const RankedLayout &own : result.simulated)
    if (result.lowerBoundSeconds > own.simulation.stepSeconds)
      return broken(fmt::format("its lower bound, {} s, is above a step of {} s: {}", result.lowerBoundSeconds,
                                own.simulation.stepSeconds, describe(problem.model, problem.machine, own.layout)));
  return Status();
}

} // namespace maestro::planner
