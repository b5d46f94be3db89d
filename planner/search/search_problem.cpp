#include "planner/search/search_problem.h"

#include "planner/search/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace maestro::planner {
namespace {

Status wrong(std::string what) { return Status::invalidInput("search problem: " + what); }

Status checkModels(const SearchProblem &problem) {
  if (problem.models.empty())
    return wrong("has no models");
  const CompoundModel &first = problem.models.front();
  for (const CompoundModel &model : problem.models) {
    MAESTRO_TRY(cost_models::check(model));
    bool same = model.sections.size() == first.sections.size() && model.dims.size() == first.dims.size() &&
                model.microBatches == first.microBatches;
    for (size_t s = 0; same && s < model.sections.size(); ++s)
      same = model.sections[s].name == first.sections[s].name && model.sections[s].trains == first.sections[s].trains;
    if (!same)
      return wrong("its models differ in more than stages");
  }
  return Status();
}

Status checkPins(const SearchProblem &problem) {
  const CompoundModel &model = problem.models.front();
  if (problem.pins.size() != model.sections.size())
    return wrong(fmt::format("has pins for {} of {} sections", problem.pins.size(), model.sections.size()));
  for (size_t s = 0; s < problem.pins.size(); ++s) {
    const SearchPins &pins = problem.pins[s];
    const std::string &name = model.sections[s].name;
    if (pins.dataParallel && *pins.dataParallel < 1)
      return wrong("section '" + name + "' is pinned to no replicas");
    if (pins.microBatch && *pins.microBatch >= model.microBatches.size())
      return wrong(fmt::format("section '{}' is pinned to micro-batch {} of {}", name, *pins.microBatch, model.microBatches.size()));
    if (pins.devices && pins.devices->empty())
      return wrong("section '" + name + "' is pinned to no devices");
    for (uint32_t device : pins.devices.value_or(std::vector<uint32_t>()))
      if (device >= problem.machine.devices)
        return wrong(fmt::format("section '{}' is pinned to device {} of {}", name, device, problem.machine.devices));
    if (pins.stages && std::none_of(problem.models.begin(), problem.models.end(), [&](const CompoundModel &candidate) {
          return candidate.sections[s].stages.size() == *pins.stages;
        }))
      return wrong(fmt::format("section '{}' is pinned to {} stages, and no model has so many", name, *pins.stages));
  }
  return Status();
}

bool obeys(const SearchPins &pins, const CompoundModel &model, size_t section, const SectionChoice &choice) {
  if ((pins.dataParallel && *pins.dataParallel != choice.devices.size()) ||
      (pins.microBatch && *pins.microBatch != choice.microBatch) ||
      (pins.stages && *pins.stages != model.sections[section].stages.size()))
    return false;
  for (const std::vector<uint32_t> &replica : choice.devices)
    for (uint32_t device : replica)
      if (pins.devices && std::find(pins.devices->begin(), pins.devices->end(), device) == pins.devices->end())
        return false;
  return true;
}

} // namespace

Status check(const SearchProblem &problem) {
  MAESTRO_TRY(cost_models::check(problem.machine));
  MAESTRO_TRY(checkModels(problem));
  MAESTRO_TRY(checkPins(problem));
  size_t dims = problem.models.front().dims.size();
  if (problem.steps.empty())
    return wrong("has no steps to simulate");
  for (const cost_models::SampleSizes &step : problem.steps)
    if (step.empty() || step.size() % dims != 0)
      return wrong(fmt::format("a step has {} sizes for {} dims", step.size(), dims));
  return Status();
}

Status verify(const SearchProblem &problem, const SearchResult &result) {
  auto broken = [](std::string what) { return Status::internal("search result: " + what); };
  if (result.model >= problem.models.size())
    return broken("its model is not there");
  const CompoundModel &model = problem.models[result.model];
  MAESTRO_TRY(cost_models::check(model, problem.machine, result.layout));
  for (size_t s = 0; s < result.layout.size(); ++s)
    if (!obeys(problem.pins[s], model, s, result.layout[s]))
      return broken("section '" + model.sections[s].name + "' is not as pinned");
  if (!fits(problem, result.model, result.layout))
    return broken("the layout does not fit the devices' memory");
  cost_models::Simulator simulator(problem.steps);
  MAESTRO_ASSIGN(cost_models::Simulation again,
                 simulator.run(model, problem.machine, result.layout, wavefront::Order::Wavefront));
  if (again.stepSeconds != result.simulation.stepSeconds)
    return broken(fmt::format("a step takes {} s, not {}", again.stepSeconds, result.simulation.stepSeconds));
  for (const ComparedLayout &row : result.compared)
    if (row.possible && !row.inFileOrder && row.simulation.stepSeconds < result.simulation.stepSeconds)
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
    text += end - begin < 2 ? fmt::format("{}", numbers[begin]) : fmt::format("{}-{}", numbers[begin], numbers[end - 1]);
  }
  return text;
}

std::string describe(const CompoundModel &model, const CompoundLayout &layout) {
  std::string text;
  for (size_t s = 0; s < layout.size(); ++s) {
    std::vector<uint32_t> devices;
    for (const std::vector<uint32_t> &replica : layout[s].devices)
      devices.insert(devices.end(), replica.begin(), replica.end());
    size_t stages = model.sections[s].stages.size();
    text += fmt::format("{}{} {}{} on {} in {}s", s == 0 ? "" : "; ", model.sections[s].name, layout[s].devices.size(),
                        stages == 1 ? "" : fmt::format(" x {} stages", stages), ranges(devices),
                        model.microBatches[layout[s].microBatch]);
  }
  return text;
}

} // namespace maestro::planner
