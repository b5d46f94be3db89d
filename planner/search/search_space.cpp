#include "planner/search/search_space.h"

#include "cost_models/collectives.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

namespace maestro::planner {
namespace {

/// More devices than this try half as many replicas each time rather than every number.
constexpr size_t kEveryDegree = 8;

std::vector<uint32_t> range(uint32_t first, uint32_t count) {
  std::vector<uint32_t> list(count);
  std::iota(list.begin(), list.end(), first);
  return list;
}

SectionChoice place(const std::vector<uint32_t> &devices, size_t replicas, size_t stages, uint32_t microBatch) {
  SectionChoice choice;
  choice.microBatch = microBatch;
  choice.devices.assign(replicas, std::vector<uint32_t>(stages));
  for (size_t replica = 0; replica < replicas; ++replica)
    for (size_t stage = 0; stage < stages; ++stage)
      choice.devices[replica][stage] = devices[(replica * stages + stage) % devices.size()];
  return choice;
}

bool allowsStages(const SearchProblem &problem, const CompoundModel &model) {
  for (size_t s = 0; s < model.sections.size(); ++s)
    if (problem.pins[s].stages && *problem.pins[s].stages != model.sections[s].stages.size())
      return false;
  return true;
}

/// Whether stages, and replicas where they are pinned, have a device each as far as there are devices.
bool hasRoom(const SearchProblem &problem, const CompoundModel &model, const Placement &placement) {
  for (size_t s = 0; s < placement.size(); ++s) {
    const SearchPins &pins = problem.pins[s];
    size_t stages = model.sections[s].stages.size(), wanted = stages * pins.dataParallel.value_or(1);
    size_t most = pins.devices ? placement[s].size() : problem.machine.devices;
    if (placement[s].size() < std::min(wanted, most) || (stages > placement[s].size() && !pins.stages))
      return false;
  }
  return true;
}

/// Sections set out in groups, each with consecutive devices of `pool`: every way to group, every number of devices.
class Grouping {
public:
  Grouping(const std::vector<uint32_t> &sections, const std::vector<uint32_t> &pool, Placement &placement,
           std::function<void()> visit)
      : sections(sections), pool(pool), placement(placement), visit(std::move(visit)) {}

  void run() { assign(0); }

private:
  void assign(size_t index) {
    if (index == sections.size()) {
      sizes.assign(groups, 0);
      return size(0, 0);
    }
    for (uint32_t group = 0; group <= groups && group < pool.size(); ++group) {
      bool isNew = group == groups;
      groupOf.push_back(group);
      groups += isNew;
      assign(index + 1);
      groups -= isNew;
      groupOf.pop_back();
    }
  }

  void size(uint32_t group, size_t used) {
    if (group == groups) {
      for (size_t i = 0; i < sections.size(); ++i) {
        size_t first = std::accumulate(sizes.begin(), sizes.begin() + groupOf[i], size_t{0});
        placement[sections[i]].assign(pool.begin() + static_cast<ptrdiff_t>(first),
                                      pool.begin() + static_cast<ptrdiff_t>(first + sizes[groupOf[i]]));
      }
      return visit();
    }
    size_t most = pool.size() - used - (groups - group - 1);
    for (size_t count = most; count >= 1; --count) {
      sizes[group] = count;
      size(group + 1, used + count);
    }
  }

  const std::vector<uint32_t> &sections, &pool;
  Placement &placement;
  std::function<void()> visit;
  std::vector<uint32_t> groupOf;
  std::vector<size_t> sizes;
  uint32_t groups = 0;
};

std::vector<Family> familiesOf(const SearchProblem &problem, const std::vector<Placement> &placements) {
  std::vector<Family> families;
  for (const Placement &placement : placements)
    for (uint32_t model = 0; model < problem.models.size(); ++model)
      if (allowsStages(problem, problem.models[model]) && hasRoom(problem, problem.models[model], placement))
        families.push_back({model, placement, {}});
  return families;
}

/// The family with as many replicas of each section as its devices allow.
Family mostReplicas(const SearchProblem &problem, Family family) {
  std::vector<std::vector<SectionChoice>> only;
  for (uint32_t s = 0; s < family.placement.size(); ++s) {
    std::vector<SectionChoice> options = optionsOf(problem, family, s);
    size_t most = 0;
    for (const SectionChoice &option : options)
      most = std::max(most, option.devices.size());
    std::erase_if(options, [&](const SectionChoice &option) { return option.devices.size() != most; });
    only.push_back(std::move(options));
  }
  family.only = std::move(only);
  return family;
}

Placement everywhere(const SearchProblem &problem) {
  Placement placement;
  for (const SearchPins &pins : problem.pins)
    placement.push_back(pins.devices.value_or(range(0, problem.machine.devices)));
  return placement;
}

} // namespace

std::vector<Placement> enumeratePlacements(const SearchProblem &problem) {
  Placement placement(problem.pins.size());
  std::vector<uint32_t> open;
  std::set<uint32_t> taken;
  std::vector<std::vector<uint32_t>> pools{range(0, problem.machine.devices)};
  for (uint32_t s = 0; s < problem.pins.size(); ++s) {
    if (!problem.pins[s].devices) {
      open.push_back(s);
      continue;
    }
    placement[s] = *problem.pins[s].devices;
    taken.insert(placement[s].begin(), placement[s].end());
    pools.push_back(placement[s]);
  }
  std::vector<uint32_t> rest;
  for (uint32_t device = 0; device < problem.machine.devices; ++device)
    if (!taken.count(device))
      rest.push_back(device);
  if (!rest.empty())
    pools.push_back(rest);
  std::vector<Placement> placements;
  std::set<Placement> seen;
  for (const std::vector<uint32_t> &pool : pools)
    Grouping(open, pool, placement, [&] {
      if (seen.insert(placement).second)
        placements.push_back(placement);
    }).run();
  return placements;
}

std::vector<Family> allFamilies(const SearchProblem &problem) { return familiesOf(problem, enumeratePlacements(problem)); }

std::vector<Family> dataParallelFamilies(const SearchProblem &problem) {
  std::vector<Family> families;
  for (Family &family : familiesOf(problem, {everywhere(problem)})) {
    const CompoundModel &model = problem.models[family.model];
    bool uncut = true;
    for (size_t s = 0; s < model.sections.size(); ++s)
      uncut &= model.sections[s].stages.size() == 1 || problem.pins[s].stages.has_value();
    if (!uncut)
      continue;
    families.push_back(mostReplicas(problem, std::move(family)));
  }
  return families;
}

std::vector<Family> oneLayoutFamilies(const SearchProblem &problem) {
  std::vector<Family> families;
  for (const Family &base : familiesOf(problem, {everywhere(problem)})) {
    const CompoundModel &model = problem.models[base.model];
    size_t stages = model.sections.front().stages.size();
    if (std::any_of(model.sections.begin(), model.sections.end(), [&](const auto &s) { return s.stages.size() != stages; }))
      continue;
    for (const SectionChoice &first : optionsOf(problem, base, 0)) {
      std::vector<std::vector<SectionChoice>> only;
      for (uint32_t s = 0; s < model.sections.size(); ++s)
        for (const SectionChoice &option : optionsOf(problem, base, s))
          if (option == first)
            only.push_back({option});
      if (only.size() == model.sections.size())
        families.push_back({base.model, base.placement, std::move(only)});
    }
  }
  return families;
}

std::vector<Family> staticSplitFamilies(const SearchProblem &problem) {
  WorkBounds bounds(problem);
  uint32_t devices = problem.machine.devices;
  Placement placement(problem.pins.size());
  std::vector<uint32_t> open;
  for (uint32_t s = 0; s < problem.pins.size(); ++s)
    if (problem.pins[s].devices)
      placement[s] = *problem.pins[s].devices;
    else
      open.push_back(s);
  std::vector<double> work;
  for (uint32_t s : open)
    work.push_back(bounds.leastWork(0, s));
  std::vector<uint32_t> count(open.size(), 1);
  if (open.size() <= devices) { // Each has one; the next device goes where a device has most to do.
    for (uint32_t given = static_cast<uint32_t>(open.size()); given < devices && !open.empty(); ++given) {
      size_t busiest = 0;
      for (size_t i = 1; i < open.size(); ++i)
        if (work[i] / count[i] > work[busiest] / count[busiest])
          busiest = i;
      ++count[busiest];
    }
    uint32_t next = 0;
    for (size_t i = 0; i < open.size(); ++i, next += count[i - 1])
      placement[open[i]] = range(next, count[i]);
  } else { // Largest first, to the device with least to do.
    std::vector<double> load(devices, 0);
    std::vector<size_t> order(open.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return work[a] > work[b]; });
    for (size_t i : order) {
      auto least = std::min_element(load.begin(), load.end());
      *least += work[i];
      placement[open[i]] = {static_cast<uint32_t>(least - load.begin())};
    }
  }
  std::vector<Family> families;
  for (Family &family : familiesOf(problem, {placement}))
    families.push_back(mostReplicas(problem, std::move(family)));
  return families;
}

std::vector<SectionChoice> optionsOf(const SearchProblem &problem, const Family &family, uint32_t section) {
  if (!family.only.empty())
    return family.only[section];
  const CompoundModel &model = problem.models[family.model];
  const SearchPins &pins = problem.pins[section];
  const std::vector<uint32_t> &devices = family.placement[section];
  size_t stages = model.sections[section].stages.size();
  std::vector<size_t> degrees;
  if (pins.dataParallel) {
    degrees.push_back(*pins.dataParallel);
  } else {
    size_t most = std::max<size_t>(1, devices.size() / stages);
    for (size_t degree = most; degree >= 1; degree = most > kEveryDegree ? degree / 2 : degree - 1)
      degrees.push_back(degree);
  }
  std::vector<SectionChoice> options;
  for (size_t degree : degrees)
    for (uint32_t m = static_cast<uint32_t>(model.microBatches.size()); m-- > 0;)
      if (!pins.microBatch || *pins.microBatch == m)
        options.push_back(place(devices, degree, stages, m));
  return options;
}

bool fits(const SearchProblem &problem, uint32_t model, const CompoundLayout &layout) {
  std::vector<uint64_t> bytes = cost_models::deviceBytes(problem.models[model], problem.machine, layout);
  for (uint32_t device = 0; device < bytes.size(); ++device)
    if (bytes[device] > problem.machine.memoryBytes(device))
      return false;
  return true;
}

// ---- bounds ---------------------------------------------------------------------------------------------------------

WorkBounds::WorkBounds(const SearchProblem &problem) : problem(problem) {
  for (const CompoundModel &model : problem.models) {
    auto &own = works.emplace_back();
    auto &least = leastAt.emplace_back();
    auto &stageLeast = leastStage.emplace_back();
    for (uint32_t s = 0; s < model.sections.size(); ++s) {
      auto &sizes = own.emplace_back();
      stageLeast.emplace_back(model.sections[s].stages.size(), std::numeric_limits<double>::infinity());
      double best = std::numeric_limits<double>::infinity();
      least.push_back(0);
      for (uint32_t m = 0; m < model.microBatches.size(); ++m) {
        auto &stages = sizes.emplace_back();
        bool allowed = !problem.pins[s].microBatch || *problem.pins[s].microBatch == m;
        for (size_t i = 0; i < model.sections[s].stages.size(); ++i) {
          stages.push_back(stageWork(model, s, model.sections[s].stages[i].at[m], model.microBatches[m]));
          if (allowed)
            stageLeast[s][i] = std::min(stageLeast[s][i], stages.back());
        }
        double total = std::accumulate(stages.begin(), stages.end(), 0.0);
        if (allowed && total < best) {
          best = total;
          least[s] = m;
        }
      }
    }
  }
  const CompoundModel &model = problem.models.front();
  beforeGradients.assign(model.sections.size(), 0);
  for (size_t s = model.sections.size(); s-- > 0;) {
    const std::vector<uint32_t> &own = model.sections[s].activeDims;
    beforeGradients[s] = model.sections[s].trains;
    for (const cost_models::EdgeModel &edge : model.edges) { // A sample that is here must be there, too.
      if (edge.producer != s || edge.consumer == s || !beforeGradients[edge.consumer])
        continue;
      const std::vector<uint32_t> &other = model.sections[edge.consumer].activeDims;
      beforeGradients[s] |= std::all_of(other.begin(), other.end(), [&](uint32_t dim) {
        return std::find(own.begin(), own.end(), dim) != own.end();
      });
    }
  }
}

const std::vector<double> &WorkBounds::work(uint32_t model, uint32_t section, uint32_t microBatch) const {
  return works[model][section][microBatch];
}

double WorkBounds::leastWork(uint32_t model, uint32_t section) const {
  const std::vector<double> &stages = work(model, section, leastAt[model][section]);
  return std::accumulate(stages.begin(), stages.end(), 0.0);
}

/// Costs are polynomials with coefficients of 0 or more: a term with a summed dim costs at least its samples' sum,
/// another one at least its largest value once and the least in each further micro-batch.
double WorkBounds::stageWork(const CompoundModel &model, uint32_t section, const cost_models::StageCosts &costs,
                             int64_t microBatch) const {
  const cost_models::SectionModel &facts = model.sections[section];
  wavefront::Section active;
  active.activeDims = facts.activeDims;
  size_t width = model.dims.size();
  double total = 0;
  for (const cost_models::SampleSizes &step : problem.steps) {
    std::vector<const int64_t *> samples;
    for (size_t row = 0; row + width <= step.size(); row += width)
      if (wavefront::takesPart(active, step.data() + row))
        samples.push_back(step.data() + row);
    if (samples.empty())
      continue;
    double groups = std::ceil(static_cast<double>(samples.size()) / static_cast<double>(microBatch));
    for (const wavefront::Cost *cost : {&costs.forward, facts.trains ? &costs.backward : nullptr}) {
      if (!cost)
        continue;
      for (const wavefront::CostTerm &term : cost->terms) {
        bool sums = false;
        double sum = 0, largest = 0, least = std::numeric_limits<double>::infinity();
        for (const int64_t *sample : samples) {
          double value = static_cast<double>(term.picoseconds);
          for (uint32_t dim : term.dims) {
            value *= static_cast<double>(wavefront::alone(model.dims[dim], sample[dim]));
            sums |= model.dims[dim].sum;
          }
          sum += value;
          largest = std::max(largest, value);
          least = std::min(least, value);
        }
        total += sums ? sum : largest + (groups - 1) * least;
      }
    }
  }
  return total * 1e-12 / static_cast<double>(std::max<size_t>(1, problem.steps.size()));
}

double WorkBounds::updateSeconds(uint32_t modelIndex, const CompoundLayout &chosen) const {
  const CompoundModel &model = problem.models[modelIndex];
  std::vector<double> seconds(problem.machine.devices, 0);
  for (size_t s = 0; s < chosen.size(); ++s)
    for (size_t i = 0; model.sections[s].trains && i < model.sections[s].stages.size(); ++i) {
      const cost_models::StageModel &stage = model.sections[s].stages[i];
      std::vector<uint32_t> devices;
      for (const std::vector<uint32_t> &replica : chosen[s].devices)
        devices.push_back(replica[i]);
      cost_models::Seconds own = cost_models::updateSeconds(stage, devices, problem.machine) +
                                 cost_models::reductionSeconds(stage.gradientBytes, devices, problem.machine);
      for (uint32_t device : devices)
        seconds[device] += own.value;
    }
  return *std::max_element(seconds.begin(), seconds.end());
}

double WorkBounds::bound(const Family &family, const CompoundLayout &layout, double tasksSeconds) const {
  bool all = std::all_of(beforeGradients.begin(), beforeGradients.end(), [](uint8_t before) { return before; });
  return std::max(bound(family, layout), all ? tasksSeconds + updateSeconds(family.model, layout) : tasksSeconds);
}

double WorkBounds::bound(const Family &family, const CompoundLayout &chosen) const {
  const CompoundModel &model = problem.models[family.model];
  uint32_t devices = problem.machine.devices;
  std::vector<uint32_t> parent(devices);
  std::iota(parent.begin(), parent.end(), 0u);
  auto root = [&](uint32_t device) {
    while (parent[device] != device)
      device = parent[device];
    return device;
  };
  for (const std::vector<uint32_t> &list : family.placement)
    for (uint32_t device : list)
      parent[root(device)] = root(list.front());
  std::vector<double> all(devices, 0), before(devices, 0), forced(devices, 0), forcedBefore(devices, 0);
  double pace = 0, paceBefore = 0;
  for (uint32_t s = 0; s < model.sections.size(); ++s) {
    bool isChosen = s < chosen.size();
    const std::vector<uint32_t> &list = family.placement[s];
    const std::vector<double> &stages = isChosen ? work(family.model, s, chosen[s].microBatch) : leastStage[family.model][s];
    size_t most = std::max<size_t>(1, list.size() / stages.size());
    size_t replicas = isChosen ? chosen[s].devices.size() : std::max<size_t>(most, problem.pins[s].dataParallel.value_or(1));
    double total = isChosen ? std::accumulate(stages.begin(), stages.end(), 0.0) : leastWork(family.model, s);
    all[root(list.front())] += total;
    before[root(list.front())] += beforeGradients[s] ? total : 0;
    for (size_t i = 0; i < stages.size(); ++i) {
      double share = stages[i] / static_cast<double>(replicas);
      pace = std::max(pace, share);
      paceBefore = std::max(paceBefore, beforeGradients[s] ? share : 0);
      if (!isChosen)
        continue;
      if (replicas == 1) {
        forced[chosen[s].devices[0][i]] += stages[i];
        forcedBefore[chosen[s].devices[0][i]] += beforeGradients[s] ? stages[i] : 0;
      }
    }
  }
  std::vector<double> members(devices, 0);
  std::set<uint32_t> used;
  for (const std::vector<uint32_t> &list : family.placement)
    used.insert(list.begin(), list.end());
  for (uint32_t device : used)
    members[root(device)] += 1;
  double tasks = pace, gradients = paceBefore;
  for (uint32_t device = 0; device < devices; ++device) {
    tasks = std::max({tasks, forced[device], members[device] > 0 ? all[device] / members[device] : 0});
    gradients = std::max({gradients, forcedBefore[device], members[device] > 0 ? before[device] / members[device] : 0});
  }
  return std::max(tasks, gradients + updateSeconds(family.model, chosen));
}

} // namespace maestro::planner
