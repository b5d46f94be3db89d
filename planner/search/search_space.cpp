#include "planner/search/search_space.h"

#include "cost_models/collectives.h"

#include <algorithm>
#include <functional>
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

/// Whether stages, and replicas where they are pinned, have a device each as far as there are devices.
bool hasRoom(const SearchProblem &problem, uint32_t section, size_t stages, size_t devices) {
  const SearchPins &pins = problem.pins[section];
  size_t most = pins.devices ? devices : problem.machine.devices;
  return devices >= std::min(stages * pins.dataParallel.value_or(1), most) && (stages <= devices || pins.stages);
}

/// Sections set out in groups, each with consecutive devices of `pool`: every way to group, every number of devices.
class Grouping {
public:
  Grouping(const std::vector<uint32_t> &sections, const std::vector<uint32_t> &pool, Placement &placement,
           std::function<bool()> visit)
      : sections(sections), pool(pool), placement(placement), visit(std::move(visit)) {}

  void run() { assign(0); }

private:
  void assign(size_t index) {
    if (index == sections.size()) {
      sizes.assign(groups, 0);
      return size(0, 0);
    }
    for (uint32_t group = 0; group <= groups && group < pool.size() && !isDone; ++group) {
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
      isDone = !visit();
      return;
    }
    size_t most = pool.size() - used - (groups - group - 1);
    for (size_t count = most; count >= 1 && !isDone; --count) {
      sizes[group] = count;
      size(group + 1, used + count);
    }
  }

  const std::vector<uint32_t> &sections, &pool;
  Placement &placement;
  std::function<bool()> visit;
  std::vector<uint32_t> groupOf;
  std::vector<size_t> sizes;
  uint32_t groups = 0;
  bool isDone = false;
};

/// The family with as many replicas of each section as its devices allow, uncut where `uncut`.
Family mostReplicas(const SearchProblem &problem, const CutTable &cuts, Family family, bool uncut) {
  std::vector<std::vector<LayoutOption>> only;
  for (uint32_t s = 0; s < family.placement.size(); ++s) {
    std::vector<LayoutOption> options = optionsOf(problem, cuts, family, s);
    std::map<size_t, size_t> most; // By stages.
    for (const LayoutOption &option : options)
      most[option.cut.stages()] = std::max(most[option.cut.stages()], option.devices.size());
    std::erase_if(options, [&](const LayoutOption &option) {
      return option.devices.size() != most[option.cut.stages()] ||
             (uncut && option.cut.stages() > 1 && !problem.pins[s].stages);
    });
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

std::vector<uint32_t> column(const LayoutOption &option, size_t stage) {
  std::vector<uint32_t> devices;
  for (const std::vector<uint32_t> &replica : option.devices)
    devices.push_back(replica[stage]);
  return devices;
}

} // namespace

std::vector<Placement> enumeratePlacements(const SearchProblem &problem, size_t most) {
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
      return placements.size() <= most;
    }).run();
  if (placements.size() > most)
    placements.clear();
  return placements;
}

LayoutOption placed(const SectionCut &cut, uint32_t microBatch, size_t replicas, const std::vector<uint32_t> &devices,
                    bool byStage) {
  LayoutOption option{cut, microBatch, {}};
  size_t stages = cut.stages();
  option.devices.assign(replicas, std::vector<uint32_t>(stages));
  for (size_t replica = 0; replica < replicas; ++replica)
    for (size_t stage = 0; stage < stages; ++stage)
      option.devices[replica][stage] =
          devices[(byStage ? stage * replicas + replica : replica * stages + stage) % devices.size()];
  return option;
}

bool isByStage(const LayoutOption &option) {
  return option.devices.size() > 1 && option.cut.stages() > 1 && option.devices[1][0] < option.devices[0][1];
}

std::vector<LayoutOption> optionsOf(const SearchProblem &problem, const CutTable &cuts, const Family &family,
                                    uint32_t section) {
  if (!family.only.empty())
    return family.only[section];
  const SearchPins &pins = problem.pins[section];
  const std::vector<uint32_t> &devices = family.placement[section];
  std::vector<LayoutOption> options;
  for (const CutFacts &facts : cuts.of(section)) {
    size_t stages = facts.cut.stages();
    if (!hasRoom(problem, section, stages, devices.size()))
      continue;
    std::vector<size_t> degrees;
    if (pins.dataParallel) {
      degrees.push_back(*pins.dataParallel);
    } else {
      size_t most = std::max<size_t>(1, devices.size() / stages);
      for (size_t degree = most; degree >= 1; degree = most > kEveryDegree ? degree / 2 : degree - 1)
        degrees.push_back(degree);
    }
    for (size_t degree : degrees)
      for (auto m = static_cast<uint32_t>(problem.model.microBatches.size()); m-- > 0;)
        if (!pins.microBatch || *pins.microBatch == m) {
          options.push_back(placed(facts.cut, m, degree, devices));
          options.back().moreInFlight = pins.moreInFlight.value_or(0);
        }
  }
  return options;
}

std::vector<Family> dataParallelFamilies(const SearchProblem &problem, const CutTable &cuts) {
  return {mostReplicas(problem, cuts, {everywhere(problem), {}}, true)};
}

std::vector<Family> oneLayoutFamilies(const SearchProblem &problem, const CutTable &cuts) {
  Family base{everywhere(problem), {}};
  std::vector<Family> families;
  std::vector<std::vector<LayoutOption>> options;
  for (uint32_t s = 0; s < problem.pins.size(); ++s)
    options.push_back(optionsOf(problem, cuts, base, s));
  std::set<std::vector<std::vector<LayoutOption>>> known;
  for (const LayoutOption &first : options[0])
    for (size_t kind = 0; kind < kRecomputes.size() * kLighterParts; kind += kCoarseParts) {
      std::vector<std::vector<LayoutOption>> only;
      for (uint32_t s = 0; s < options.size(); ++s) {
        const cost_models::AtomicSection &section = problem.model.sections[s];
        auto same = std::find_if(options[s].begin(), options[s].end(), [&](const LayoutOption &option) {
          return option.cut.stages() == first.cut.stages() && option.microBatch == first.microBatch &&
                 option.devices == first.devices &&
                 (!section.trains || (option.cut.recompute.most == kRecomputes[kind / kLighterParts] &&
                                      lighterParts(section, option.cut.recompute) ==
                                          kind % kLighterParts)); // Else there is nothing to choose.
        });
        if (same != options[s].end())
          only.push_back({*same});
      }
      if (only.size() == options.size() && known.insert(only).second)
        families.push_back({base.placement, std::move(only)});
    }
  return families;
}

Placement staticSplit(const SearchProblem &problem, const WorkTable &table) {
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
    work.push_back(table.least(s));
  std::vector<uint32_t> count(open.size(), 1);
  if (open.size() <= devices) { // Each has one; the next device goes where a device has most to do.
    for (auto given = static_cast<uint32_t>(open.size()); given < devices && !open.empty(); ++given) {
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
  return placement;
}

std::vector<Family> staticSplitFamilies(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work) {
  return {mostReplicas(problem, cuts, {staticSplit(problem, work), {}}, false)};
}

// ---- bounds ---------------------------------------------------------------------------------------------------------

WorkBounds::WorkBounds(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work)
    : problem(problem), cuts(cuts), work(work) {}

double WorkBounds::updateSeconds(const Layout &chosen) const {
  std::vector<double> seconds(problem.machine.devices, 0);
  for (uint32_t s = 0; s < chosen.size(); ++s) {
    if (!problem.model.sections[s].trains)
      continue;
    const CutFacts &facts = cuts.find(s, chosen[s].cut);
    for (size_t i = 0; i < facts.stages.size(); ++i) {
      std::vector<uint32_t> devices = column(chosen[s], i);
      cost_models::Seconds own = cost_models::updateSeconds(facts.stages[i], devices, problem.machine) +
                                 cost_models::reductionSeconds(facts.stages[i].gradientBytes, devices, problem.machine);
      for (uint32_t device : devices)
        seconds[device] += own.value;
    }
  }
  return *std::max_element(seconds.begin(), seconds.end());
}

/// By section: whether all of its tasks of a step end before updates begin. A frozen one may run ahead on devices that
/// do not train.
std::vector<uint8_t> WorkBounds::waiting(const Layout &chosen) const {
  std::vector<uint8_t> training(problem.machine.devices, 0);
  for (uint32_t s = 0; s < chosen.size(); ++s)
    for (const std::vector<uint32_t> &replica : chosen[s].devices)
      for (uint32_t device : replica)
        training[device] |= problem.model.sections[s].trains;
  std::vector<uint8_t> waits(problem.pins.size());
  for (uint32_t s = 0; s < waits.size(); ++s) {
    waits[s] = work.isBeforeGradients(s) && (problem.model.sections[s].trains || s < chosen.size());
    for (size_t replica = 0; !problem.model.sections[s].trains && waits[s] && replica < chosen[s].devices.size();
         ++replica)
      for (uint32_t device : chosen[s].devices[replica])
        waits[s] = waits[s] && training[device];
  }
  return waits;
}

/// A step that runs ahead may take less than its tasks from the first to the last.
double WorkBounds::bound(const Family &family, const Layout &layout, double tasksSeconds) const {
  std::vector<uint8_t> waits = waiting(layout);
  bool allBefore = true, ahead = false;
  for (uint32_t s = 0; s < layout.size(); ++s) {
    allBefore &= work.isBeforeGradients(s);
    ahead |= !problem.model.sections[s].trains && !waits[s];
  }
  double own = bound(family, layout);
  return ahead ? own : std::max(own, allBefore ? tasksSeconds + updateSeconds(layout) : tasksSeconds);
}

double WorkBounds::bound(const Family &family, const Layout &chosen) const {
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
  std::vector<uint8_t> waits = waiting(chosen);
  for (uint32_t s = 0; s < problem.pins.size(); ++s) {
    bool isChosen = s < chosen.size(), waiting = waits[s];
    double total = work.least(s);
    if (isChosen) {
      const std::vector<double> &stages = cuts.find(s, chosen[s].cut).work[chosen[s].microBatch];
      size_t replicas = chosen[s].devices.size();
      total = std::accumulate(stages.begin(), stages.end(), 0.0);
      for (size_t i = 0; i < stages.size(); ++i) {
        double share = stages[i] / static_cast<double>(replicas);
        pace = std::max(pace, share);
        paceBefore = std::max(paceBefore, waiting ? share : 0);
        if (replicas == 1) {
          forced[chosen[s].devices[0][i]] += stages[i];
          forcedBefore[chosen[s].devices[0][i]] += waiting ? stages[i] : 0;
        }
      }
    }
    uint32_t group = root(family.placement[s].front());
    all[group] += total;
    before[group] += waiting ? total : 0;
  }
  std::vector<double> members(devices, 0);
  std::vector<uint8_t> used(devices, 0);
  for (const std::vector<uint32_t> &list : family.placement)
    for (uint32_t device : list)
      used[device] = 1;
  for (uint32_t device = 0; device < devices; ++device)
    members[root(device)] += used[device];
  double tasks = pace, gradients = paceBefore;
  for (uint32_t device = 0; device < devices; ++device) {
    tasks = std::max({tasks, forced[device], members[device] > 0 ? all[device] / members[device] : 0});
    gradients = std::max({gradients, forcedBefore[device], members[device] > 0 ? before[device] / members[device] : 0});
  }
  return std::max(tasks, gradients + updateSeconds(chosen));
}

} // namespace maestro::planner
