#include "planner/search/candidates.h"

#include "wavefront/lower_bound.h"

#include <algorithm>

namespace maestro::planner {
namespace {

std::vector<uint32_t> sectionsOn(const Layout &layout, uint32_t device) {
  std::vector<uint32_t> sections;
  for (uint32_t s = 0; s < layout.size(); ++s)
    if (std::any_of(layout[s].devices.begin(), layout[s].devices.end(), [&](const std::vector<uint32_t> &replica) {
          return std::find(replica.begin(), replica.end(), device) != replica.end();
        }))
      sections.push_back(s);
  return sections;
}

/// Models of large layouts are megabytes.
constexpr size_t kMostModels = 64;

std::string namesOf(const AtomicModel &model, const std::vector<uint32_t> &sections) {
  std::string text;
  for (uint32_t section : sections)
    text += (text.empty() ? "" : ", ") + model.sections[section].name;
  return text;
}

} // namespace

std::shared_ptr<const CompoundModel> Candidates::modelOf(const Layout &layout) {
  std::vector<SectionCut> cuts;
  for (const LayoutOption &option : layout)
    cuts.push_back(option.cut);
  if (auto found = models.find(cuts); found != models.end())
    return found->second;
  if (models.size() == kMostModels)
    models.clear();
  auto model = std::make_shared<const CompoundModel>(cost_models::compose(problem.model, cuts));
  models.emplace(std::move(cuts), model);
  return model;
}

bool Candidates::fits(const Layout &layout) { return excess(layout).bytes == 0; }

Candidates::Excess Candidates::excess(const Layout &layout) {
  std::vector<uint64_t> bytes = cost_models::deviceBytes(*modelOf(layout), problem.machine, choicesOf(layout));
  uint32_t worst = 0;
  auto over = [&](uint32_t device) {
    return static_cast<double>(bytes[device]) - static_cast<double>(problem.machine.memoryBytes(device));
  };
  for (uint32_t device = 0; device < bytes.size(); ++device)
    worst = over(device) > over(worst) ? device : worst;
  if (bytes[worst] <= problem.machine.memoryBytes(worst))
    return {};
  std::vector<uint32_t> sections = sectionsOn(layout, worst);
  noteLack(bytes[worst], problem.machine.memoryBytes(worst), namesOf(problem.model, sections));
  return {bytes[worst] - problem.machine.memoryBytes(worst), std::move(sections)};
}

void Candidates::noteLack(uint64_t needs, uint64_t has, std::string sections) {
  if (leastLack.needs == 0 || needs - has < leastLack.needs - leastLack.has)
    leastLack = {needs, has, std::move(sections)};
}

uint64_t Candidates::tasks(const Layout &layout) {
  return simulator.tasks(*modelOf(layout), problem.machine, choicesOf(layout));
}

Result<const cost_models::Simulation *> Candidates::simulate(const Layout &layout, wavefront::Order order,
                                                             Allowance &allowance) {
  auto [found, isNew] = known.try_emplace({order, layout});
  if (isNew) {
    ++count;
    allowance.simulations -= std::min(allowance.simulations, 1u);
    std::shared_ptr<const CompoundModel> model = modelOf(layout);
    CompoundLayout choices = choicesOf(layout);
    allowance.tasks -= std::min(allowance.tasks, simulator.tasks(*model, problem.machine, choices));
    if (auto done = ahead.extract({order, layout})) {
      MAESTRO_ASSIGN(found->second, std::move(done.mapped()));
    } else {
      MAESTRO_ASSIGN(found->second, simulator.run(*model, problem.machine, choices, order));
    }
  }
  return &found->second;
}

void Candidates::simulateAhead(std::span<const Layout> layouts, wavefront::Order order) {
  std::vector<Key> keys;
  std::vector<cost_models::SimulationQuestion> questions;
  for (const Layout &layout : layouts) {
    Key key{order, layout};
    if (known.count(key) || ahead.count(key) || std::find(keys.begin(), keys.end(), key) != keys.end())
      continue;
    keys.push_back(std::move(key));
    questions.push_back({modelOf(layout), &problem.machine, choicesOf(layout), order});
  }
  if (questions.size() < 2 || atOnce() < 2)
    return;
  std::vector<Result<cost_models::Simulation>> answers = several.run(questions);
  for (size_t i = 0; i < keys.size(); ++i)
    ahead.emplace(std::move(keys[i]), std::move(answers[i]));
}

Result<double> Candidates::tasksBound(const Layout &layout) {
  wavefront::Problem schedule = cost_models::makeProblem(*modelOf(layout), problem.machine, choicesOf(layout));
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
