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
    if (pins.recompute && !model.sections[s].has(*pins.recompute))
      return wrong(fmt::format("section '{}' is pinned to recompute '{}', and has no such choice (of {} layers)", name,
                               textOf(*pins.recompute), model.sections[s].classOf.size()));
    if (pins.splitStages.value_or(0) > 0 && !model.sections[s].has(pins.recompute.value_or(RecomputeChoice{}), true))
      return wrong(fmt::format("section '{}' is pinned to a split backward, and has no such choice", name));
  }
  return Status();
}

} // namespace

bool obeys(const SearchPins &pins, const LayoutOption &option) {
  if ((pins.dataParallel && *pins.dataParallel != option.devices.size()) ||
      (pins.microBatch && *pins.microBatch != option.microBatch) ||
      (pins.stages && *pins.stages != option.cut.stages()) ||
      (pins.recompute && *pins.recompute != option.cut.recompute) ||
      (pins.splitStages && std::min<size_t>(*pins.splitStages, option.cut.stages()) != option.cut.splitStages) ||
      (pins.moreInFlight && *pins.moreInFlight != option.moreInFlight))
    return false;
  for (const std::vector<uint32_t> &replica : option.devices)
    for (uint32_t device : replica)
      if (pins.devices && std::find(pins.devices->begin(), pins.devices->end(), device) == pins.devices->end())
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

std::set<uint32_t> devicesOf(const LayoutOption &option) {
  std::set<uint32_t> devices;
  for (const std::vector<uint32_t> &replica : option.devices)
    devices.insert(replica.begin(), replica.end());
  return devices;
}

CompoundModel modelOf(const SearchProblem &problem, const Layout &layout) {
  std::vector<SectionCut> cuts;
  for (const LayoutOption &option : layout)
    cuts.push_back(option.cut);
  return cost_models::compose(problem.model, cuts);
}

CompoundLayout choicesOf(const Layout &layout) {
  CompoundLayout choices;
  for (const LayoutOption &option : layout)
    choices.push_back({option.microBatch, option.devices, option.moreInFlight});
  return choices;
}

bool fits(const SearchProblem &problem, const CompoundModel &model, const CompoundLayout &layout) {
  std::vector<uint64_t> bytes = cost_models::deviceBytes(model, problem.machine, layout);
  for (uint32_t device = 0; device < bytes.size(); ++device)
    if (bytes[device] > problem.machine.memoryBytes(device))
      return false;
  return true;
}

Status verify(const SearchProblem &problem, const SearchResult &result) {
  auto broken = [](std::string what) { return Status::internal("search result: " + what); };
  std::vector<SectionCut> cuts;
  for (const LayoutOption &option : result.layout)
    cuts.push_back(option.cut);
  MAESTRO_TRY(cost_models::check(problem.model, cuts));
  CompoundModel model = cost_models::compose(problem.model, cuts);
  CompoundLayout choices = choicesOf(result.layout);
  MAESTRO_TRY(cost_models::check(model, problem.machine, choices));
  for (size_t s = 0; s < result.layout.size(); ++s)
    if (!obeys(problem.pins[s], result.layout[s]))
      return broken("section '" + model.sections[s].name + "' is not as pinned");
  if (!fits(problem, model, choices))
    return broken("the layout does not fit the devices' memory");
  cost_models::Simulator simulator(problem.steps, problem.budget.mostTasks, result.hints);
  MAESTRO_ASSIGN(cost_models::Simulation again,
                 simulator.run(model, problem.machine, choices, wavefront::Order::Wavefront));
  if (again.stepSeconds != result.simulation.stepSeconds)
    return broken(fmt::format("a step takes {} s, not {}", again.stepSeconds, result.simulation.stepSeconds));
  for (const ComparedLayout &row : result.compared)
    if (row.possible && !row.inFileOrder && !row.isWithoutPins &&
        row.simulation.stepSeconds < result.simulation.stepSeconds)
      return broken(fmt::format("'{}' takes {} s, the result {}", row.name, row.simulation.stepSeconds,
                                result.simulation.stepSeconds));
  if (result.lowerBoundSeconds > result.simulation.stepSeconds)
    return broken("its lower bound is above its step time");
  return Status();
}

std::string ranges(std::vector<uint32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::string text;
  for (size_t begin = 0, end; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;)
      ++end;
    text += text.empty() ? "" : ",";
    text +=
        end - begin < 2 ? fmt::format("{}", numbers[begin]) : fmt::format("{}-{}", numbers[begin], numbers[end - 1]);
  }
  return text;
}

std::string describe(const cost_models::MicroBatchCapacity &capacity) {
  std::string text = fmt::format("{} sample{}", capacity.samples, capacity.samples == 1 ? "" : "s");
  for (const wavefront::Area &area : capacity.areas)
    text += fmt::format(", {} padded tokens", area.capacity);
  return text;
}

std::string describe(const AtomicModel &model, const Layout &layout) {
  std::string text;
  for (size_t s = 0; s < layout.size(); ++s) {
    const LayoutOption &option = layout[s];
    std::vector<uint32_t> devices;
    for (const std::vector<uint32_t> &replica : option.devices)
      devices.insert(devices.end(), replica.begin(), replica.end());
    size_t stages = option.cut.stages();
    const cost_models::MicroBatchCapacity &capacity = model.sections[s].capacities[option.microBatch];
    std::string tokens = capacity.areas.empty() ? "" : fmt::format(" of {} tokens", capacity.areas.front().capacity);
    text += fmt::format(
        "{}{} {}{} on {} in {}s{}{}{}{}", s == 0 ? "" : "; ", model.sections[s].name, option.devices.size(),
        stages == 1 ? "" : fmt::format(" x {} stages", stages), ranges(devices), capacity.samples, tokens,
        option.cut.recompute == RecomputeChoice{} ? "" : fmt::format(", {} recompute", textOf(option.cut.recompute)),
        option.cut.splitStages == 0        ? ""
        : option.cut.splitStages == stages ? ", split backward"
                                           : fmt::format(", split backward in the last {}", option.cut.splitStages),
        option.moreInFlight == 0 ? "" : fmt::format(", {} more in flight", option.moreInFlight));
  }
  return text;
}

} // namespace maestro::planner
