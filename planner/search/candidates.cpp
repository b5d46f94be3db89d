#include "planner/search/candidates.h"

#include "executor/wavefront/lower_bound.h"

#include <algorithm>

namespace maestro::planner {
namespace {

/// The sections on a device, in words.
std::string sectionsOn(const AtomicModel &model, const Layout &layout, uint32_t device) {
  std::string text;
  for (size_t s = 0; s < layout.size(); ++s) {
    bool here = false;
    for (const std::vector<uint32_t> &replica : layout[s].devices)
      here |= std::find(replica.begin(), replica.end(), device) != replica.end();
    if (here)
      text += (text.empty() ? "" : ", ") + model.sections[s].name;
  }
  return text;
}

} // namespace

bool Candidates::fits(const Layout &layout) {
  std::vector<uint64_t> bytes = cost_models::deviceBytes(modelOf(problem, layout), problem.machine, choicesOf(layout));
  uint32_t worst = 0;
  bool fit = true;
  auto excess = [&](uint32_t device) {
    return static_cast<double>(bytes[device]) - static_cast<double>(problem.machine.memoryBytes(device));
  };
  for (uint32_t device = 0; device < bytes.size(); ++device) {
    fit &= bytes[device] <= problem.machine.memoryBytes(device);
    worst = excess(device) > excess(worst) ? device : worst;
  }
  if (!fit)
    noteLack(bytes[worst], problem.machine.memoryBytes(worst), sectionsOn(problem.model, layout, worst));
  return fit;
}

void Candidates::noteLack(uint64_t needs, uint64_t has, std::string sections) {
  if (leastLack.needs == 0 || needs - has < leastLack.needs - leastLack.has)
    leastLack = {needs, has, std::move(sections)};
}

uint64_t Candidates::tasks(const Layout &layout) const {
  return simulator.tasks(modelOf(problem, layout), problem.machine, choicesOf(layout));
}

Result<const cost_models::Simulation *> Candidates::simulate(const Layout &layout, wavefront::Order order, Allowance &allowance) {
  auto [found, isNew] = known.try_emplace({order, layout});
  if (isNew) {
    ++count;
    allowance.simulations -= std::min(allowance.simulations, 1u);
    CompoundModel model = modelOf(problem, layout);
    CompoundLayout choices = choicesOf(layout);
    allowance.tasks -= std::min(allowance.tasks, simulator.tasks(model, problem.machine, choices));
    MAESTRO_ASSIGN(found->second, simulator.run(model, problem.machine, choices, order));
  }
  return &found->second;
}

Result<double> Candidates::tasksBound(const Layout &layout) const {
  wavefront::Problem schedule = cost_models::makeProblem(modelOf(problem, layout), problem.machine, choicesOf(layout));
  double total = 0;
  for (const cost_models::SampleSizes &sizes : problem.steps) {
    schedule.sizes = sizes;
    MAESTRO_TRY(wavefront::check(schedule));
    total += static_cast<double>(wavefront::lowerBound(schedule)) * 1e-9;
  }
  return total / static_cast<double>(problem.steps.size());
}

std::vector<RankedLayout> Candidates::ranked() const {
  std::vector<RankedLayout> list;
  for (const auto &[key, simulation] : known)
    if (key.first == wavefront::Order::Wavefront)
      list.push_back({key.second, simulation});
  std::stable_sort(list.begin(), list.end(), [](const RankedLayout &a, const RankedLayout &b) {
    return a.simulation.stepSeconds < b.simulation.stepSeconds;
  });
  return list;
}

} // namespace maestro::planner
