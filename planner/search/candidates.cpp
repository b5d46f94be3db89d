#include "planner/search/candidates.h"

#include <algorithm>

namespace maestro::planner {
namespace {

/// Models that are kept: those of large layouts are megabytes.
constexpr size_t kMaxModels = 64;

} // namespace

Candidates::Candidates(const SearchProblem &problem)
    : problem(problem), simulator(problem.steps, problem.budget.tasksAtOnce, problem.hints, problem.budget.nsPerTask),
      counter(problem.steps, problem.budget.tasksAtOnce, problem.hints) {}

std::shared_ptr<const CompoundModel> Candidates::modelOf(const Layout &layout) {
  std::vector<SectionCut> cuts = cutsOf(layout);
  if (auto found = models.find(cuts); found != models.end())
    return found->second;
  if (models.size() == kMaxModels)
    models.clear();
  auto model = std::make_shared<const CompoundModel>(cost_models::compose(problem.model, cuts));
  models.emplace(std::move(cuts), model);
  return model;
}

std::string Candidates::namesOnDevice(const CompoundLayout &choices, uint32_t device) const {
  std::string text;
  for (size_t s = 0; s < choices.size(); ++s)
    if (devicesOf(choices[s]).count(device))
      text += (text.empty() ? "" : ", ") + problem.model.sections[s].name;
  return text;
}

uint64_t Candidates::missingBytes(const Layout &layout) {
  CompoundLayout choices = place(layout, problem.machine);
  std::vector<uint64_t> bytes = cost_models::deviceBytes(*modelOf(layout), problem.machine, choices);
  uint64_t missing = 0;
  uint32_t worst = 0;
  for (uint32_t device = 0; device < bytes.size(); ++device)
    if (uint64_t has = problem.machine.memoryBytes(device); bytes[device] > has && bytes[device] - has > missing) {
      missing = bytes[device] - has;
      worst = device;
    }
  if (missing > 0 && (leastLack.needs == 0 || missing < leastLack.needs - leastLack.has))
    leastLack = {bytes[worst], bytes[worst] - missing, namesOnDevice(choices, worst)};
  return missing;
}

bool Candidates::isOver() { return over = over || (!known.empty() && problem.isOver && problem.isOver()); }

Result<std::vector<const cost_models::Simulation *>>
Candidates::simulate(std::span<const Layout> layouts, wavefront::Order order, Allowance &allowance) {
  std::vector<Key> keys;
  std::vector<size_t> asked; // Of the layouts.
  std::vector<cost_models::SimulationQuestion> questions;
  for (size_t i = 0; i < layouts.size(); ++i) {
    Key key{order, cutsOf(layouts[i]), place(layouts[i], problem.machine)};
    if (!known.count(key) && std::find(keys.begin(), keys.end(), key) == keys.end()) {
      if (isOver())
        break;
      std::shared_ptr<const CompoundModel> model = modelOf(layouts[i]);
      uint64_t tasks = counter.tasks(*model, problem.machine, key.choices);
      if (allowance.simulations == 0 || tasks > allowance.tasks)
        break;
      --allowance.simulations;
      allowance.tasks -= tasks;
      asked.push_back(i);
      questions.push_back({std::move(model), &problem.machine, key.choices, order});
    }
    keys.push_back(std::move(key));
  }
  std::vector<Result<cost_models::Simulation>> answers = simulator.run(questions);
  for (size_t i = 0; i < asked.size(); ++i) {
    MAESTRO_ASSIGN(cost_models::Simulation simulation, std::move(answers[i]));
    known.emplace(keys[asked[i]], Known{layouts[asked[i]], std::move(simulation)});
  }
  std::vector<const cost_models::Simulation *> simulations(layouts.size(), nullptr);
  for (size_t i = 0; i < keys.size(); ++i)
    simulations[i] = &known.at(keys[i]).simulation;
  return simulations;
}

std::vector<RankedLayout> Candidates::ranked() const {
  std::vector<RankedLayout> list;
  for (const auto &[key, own] : known)
    if (key.order == wavefront::Order::Wavefront)
      list.push_back({own.layout, own.simulation});
  std::stable_sort(list.begin(), list.end(), [](const RankedLayout &a, const RankedLayout &b) {
    return a.simulation.stepSeconds < b.simulation.stepSeconds;
  });
  return list;
}

} // namespace maestro::planner
