#include "planner/explain/alternatives.h"

#include "planner/search/baselines.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace maestro::planner {
namespace {

using cost_models::Machine;

std::string words(const Layout &layout, const Machine &machine, uint32_t section) {
  const SectionOption &own = layout.sections[section];
  std::set<uint32_t> devices = devicesOf(place(layout, machine)[section]);
  return fmt::format("{} replica{}{} on {}", own.replicas, own.replicas == 1 ? "" : "s",
                     own.stages() == 1 ? "" : fmt::format(" of {} stages", own.stages()),
                     ranges({devices.begin(), devices.end()}));
}

/// Collects layouts that differ in one section, each once.
class Collector {
public:
  Collector(const SearchProblem &problem, const Cuts &cuts, const Layout &layout, uint32_t section)
      : problem(problem), cuts(cuts), layout(layout), section(section), seen{layout} {}

  const SectionOption &current() const { return layout.sections[section]; }
  const cost_models::AtomicSection &chain() const { return problem.model.sections[section]; }
  uint32_t devices() const { return layout.groups[layout.groupOf(section)].devices; }

  void add(Layout next, std::string choice = "") {
    if (!seen.insert(next).second || isSameHere(next))
      return;
    if (choice.empty())
      choice = words(next, problem.machine, section);
    options.push_back({section, std::move(next), std::move(choice)});
  }

  void add(const SectionOption &option, std::string choice = "") {
    Layout next = layout;
    next.sections[section] = option;
    add(std::move(next), std::move(choice));
  }

  void microBatches() {
    for (uint32_t m = 0; m < chain().capacities.size(); ++m) {
      SectionOption option = current();
      if (isSame(chain().capacities[m], chain().capacities[option.microBatch]))
        continue;
      option.microBatch = m;
      add(option, describe(chain().capacities[m]));
    }
  }

  void replicas() {
    uint32_t now = current().replicas, most = std::max(1u, devices() / current().stages());
    for (uint32_t replicas : {now / 2, now - 1, now + 1, now * 2, most}) {
      SectionOption option = current();
      option.replicas = replicas;
      if (replicas >= 1 && replicas <= most)
        add(option);
    }
  }

  /// In other numbers of stages, at least so many, with the replicas that there is room for.
  void otherStages(uint32_t room, uint32_t least) {
    uint32_t now = current().stages(), atoms = static_cast<uint32_t>(chain().classOf.size());
    for (uint32_t stages : {now / 2, now - 1, now + 1, now * 2}) {
      if (stages < least || stages == now || stages > std::min(atoms, room))
        continue;
      SectionOption option = current();
      option.cut = cuts.cut(section, option.cut.recompute, stages, option.cut.splitStages);
      option.replicas = room / stages;
      add(option);
    }
  }

  void otherRecompute() {
    for (Recompute most : kRecomputes)
      for (uint32_t parts : {kRecomputeParts / 2, 0u}) {
        SectionOption option = current();
        auto choice = recomputeChoice(problem.model, section, most, parts, option.cut.recompute.lossChunks);
        if (!choice || !chain().has(*choice, option.cut.splitStages > 0))
          continue;
        option.cut.recompute = *choice;
        add(option, textOf(*choice));
      }
  }

  void otherLossChunks() {
    std::vector<uint32_t> counts{1};
    counts.insert(counts.end(), chain().lossChunks.begin(), chain().lossChunks.end());
    for (uint32_t chunks : counts) {
      SectionOption option = current();
      option.cut.recompute.lossChunks = chunks;
      if (chain().has(option.cut.recompute, option.cut.splitStages > 0))
        add(option, std::to_string(chunks));
    }
  }

  void otherSplits() {
    uint32_t all = current().stages();
    for (uint32_t split : {0u, all / 2, all}) {
      SectionOption option = current();
      if (split > 0 && (!chain().has(option.cut.recompute, true) || !mayGainBySplitting(problem, section, all)))
        continue;
      option.cut.splitStages = split;
      add(option, split == 0 ? "no" : split == all ? "all" : std::to_string(split));
    }
  }

  void otherInFlight() {
    for (uint32_t more : {2u, 16u}) {
      SectionOption option = current();
      option.moreInFlight = more;
      add(option, std::to_string(more));
    }
  }

  /// On all of the machine; with those of another section; with one device fewer; on devices of its own, one or half of
  /// those that it shares.
  void otherDevices() {
    size_t own = layout.groupOf(section);
    everywhere(own);
    for (size_t g = 0; g < layout.groups.size(); ++g)
      if (g != own)
        move(g);
    const DeviceGroup &group = layout.groups[own];
    if (group.devices > 1 && group.pinned.empty())
      fewer(own);
    if (group.sections.size() > 1 && group.devices > 1 && group.pinned.empty())
      for (uint32_t devices : std::set<uint32_t>{1, group.devices / 2})
        separate(own, devices);
  }

  std::vector<Alternative> take() { return std::move(options); }

private:
  /// The same options on the same devices, whose groups alone are written otherwise.
  bool isSameHere(const Layout &next) const {
    if (next.sections != layout.sections)
      return false;
    CompoundLayout here = place(layout, problem.machine), there = place(next, problem.machine);
    return std::equal(here.begin(), here.end(), there.begin(), there.end(),
                      [](const auto &a, const auto &b) { return a.devices == b.devices; });
  }

  /// As many replicas as there is room for; false where there is none.
  static bool refill(Layout &next, uint32_t section) {
    SectionOption &option = next.sections[section];
    option.replicas = next.groups[next.groupOf(section)].devices / option.stages();
    return option.replicas > 0;
  }

  void take(Layout &next, size_t group) {
    std::vector<uint32_t> &sections = next.groups[group].sections;
    sections.erase(std::find(sections.begin(), sections.end(), section));
  }

  /// To another group; the devices of its own go there too where nobody else has them.
  void move(size_t to) {
    size_t own = layout.groupOf(section);
    Layout next = layout;
    take(next, own);
    DeviceGroup &group = next.groups[to];
    group.sections.insert(std::upper_bound(group.sections.begin(), group.sections.end(), section), section);
    if (next.groups[own].sections.empty()) {
      if (Layout with = next; group.pinned.empty() && next.groups[own].pinned.empty()) {
        with.groups[to].devices += next.groups[own].devices;
        with.groups.erase(with.groups.begin() + static_cast<ptrdiff_t>(own));
        if (refill(with, section))
          add(std::move(with));
      }
      next.groups.erase(next.groups.begin() + static_cast<ptrdiff_t>(own));
    }
    if (refill(next, section))
      add(std::move(next));
  }

  void everywhere(size_t from) {
    Layout next = layout;
    take(next, from);
    DeviceGroup group;
    group.sections = {section};
    group.devices = problem.machine.devices;
    group.byStage = layout.groups[from].byStage;
    for (uint32_t device = 0; device < group.devices; ++device)
      group.pinned.push_back(device);
    pinOthers(next);
    if (next.groups[from].sections.empty())
      next.groups.erase(next.groups.begin() + static_cast<ptrdiff_t>(from));
    next.groups.push_back(std::move(group));
    if (refill(next, section))
      add(std::move(next));
  }

  /// Other groups stay where they are.
  void pinOthers(Layout &next) const {
    CompoundLayout placed = place(layout, problem.machine);
    for (DeviceGroup &group : next.groups) {
      std::set<uint32_t> devices;
      for (uint32_t other : group.sections)
        for (uint32_t device : devicesOf(placed[other]))
          devices.insert(device);
      group.pinned.assign(devices.begin(), devices.end());
      group.devices = static_cast<uint32_t>(devices.size());
    }
  }

  void fewer(size_t group) {
    Layout next = layout;
    --next.groups[group].devices;
    bool isPossible = true;
    for (uint32_t other : next.groups[group].sections)
      isPossible &= next.sections[other].stations() <= next.groups[group].devices || refill(next, other);
    if (isPossible)
      add(std::move(next));
  }

  void separate(size_t from, uint32_t devices) {
    Layout next = layout;
    take(next, from);
    next.groups[from].devices -= devices;
    DeviceGroup group;
    group.sections = {section};
    group.devices = devices;
    next.groups.push_back(std::move(group));
    bool isPossible = refill(next, section);
    for (uint32_t other : next.groups[from].sections)
      isPossible &= next.sections[other].stations() <= next.groups[from].devices || refill(next, other);
    if (isPossible)
      add(std::move(next));
  }

  const SearchProblem &problem;
  const Cuts &cuts;
  const Layout &layout;
  uint32_t section;
  std::set<Layout> seen;
  std::vector<Alternative> options;
};

} // namespace

const char *nameOf(Decided decided) {
  constexpr const char *kNames[] = {"micro_batch",    "dp",     "stages", "recompute", "loss_chunks", "split_backward",
                                    "more_in_flight", "devices"};
  return kNames[static_cast<size_t>(decided)];
}

std::vector<Alternative> alternativesOf(const SearchProblem &problem, const Cuts &cuts, const Layout &layout,
                                        uint32_t section, Decided decided) {
  Collector collector(problem, cuts, layout, section);
  switch (decided) {
  case Decided::MicroBatch:
    collector.microBatches();
    break;
  case Decided::Replicas:
    collector.replicas();
    break;
  case Decided::Stages:
    collector.otherStages(collector.devices(), 1);
    break;
  case Decided::Recompute:
    collector.otherRecompute();
    break;
  case Decided::LossChunks:
    collector.otherLossChunks();
    break;
  case Decided::SplitBackward:
    collector.otherSplits();
    break;
  case Decided::InFlight:
    collector.otherInFlight();
    break;
  case Decided::Devices:
    collector.otherDevices();
    break;
  }
  return collector.take();
}

std::vector<Alternative> alternativesOnMore(const SearchProblem &problem, const Cuts &cuts, const Layout &layout,
                                            uint32_t section, uint32_t added) {
  Layout larger = layout;
  DeviceGroup &group = larger.groups[layout.groupOf(section)];
  if (!group.pinned.empty())
    return {};
  group.devices += added;
  Collector collector(problem, cuts, larger, section);
  SectionOption own = layout.sections[section];
  own.replicas = group.devices / own.stages();
  if (own.replicas > layout.sections[section].replicas)
    collector.add(own);
  collector.otherStages(group.devices, own.stages() + 1);
  Layout all = larger;
  for (uint32_t other : group.sections)
    all.sections[other].replicas = std::max(all.sections[other].replicas, group.devices / all.sections[other].stages());
  if (group.sections.size() > 1 && all != larger)
    collector.add(all, "with all that share its devices: " + words(all, problem.machine, section));
  return collector.take();
}

// ---- The machine ----------------------------------------------------------------------------------------------------

uint64_t missingBytes(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout) {
  std::vector<uint64_t> bytes = cost_models::deviceBytes(model, machine, layout);
  uint64_t missing = 0;
  for (uint32_t device = 0; device < bytes.size(); ++device)
    missing = std::max(missing, bytes[device] - std::min(bytes[device], machine.memoryBytes(device)));
  return missing;
}

uint64_t missingBytes(const SearchProblem &problem, const std::string &baseline) {
  SearchProblem unlimited = problem;
  addMemory(unlimited.machine, std::numeric_limits<uint64_t>::max());
  Cuts cuts(unlimited);
  Estimator estimator(unlimited, cuts);
  std::optional<uint64_t> least;
  for (const NamedBaseline &own : kBaselines)
    if (own.name == baseline)
      for (Layout layout : own.layouts(unlimited, cuts, estimator))
        for (uint32_t m = 0; m < problem.model.microBatches.size(); ++m) {
          for (SectionOption &option : layout.sections)
            option.microBatch = m;
          uint64_t missing =
              missingBytes(modelOf(problem.model, layout), problem.machine, place(layout, problem.machine));
          least = std::min(least.value_or(missing), missing);
        }
  return least.value_or(0);
}

double memoryLimit(const Machine &machine, uint32_t device) {
  uint64_t bytes = machine.memoryBytes(device);
  return bytes == std::numeric_limits<uint64_t>::max() ? 0 : static_cast<double>(bytes);
}

double fullness(const Machine &machine, uint32_t device, uint64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(machine.memoryBytes(device));
}

/// Clusters grow by what the outermost level joins: a node.
uint32_t addDevices(Machine &machine) {
  uint32_t added = machine.links.size() < 2 ? 1 : machine.links[machine.links.size() - 2].spans;
  machine.devices += added;
  if (!machine.kindOf.empty())
    machine.kindOf.resize(machine.devices, machine.kindOf.back());
  if (!machine.links.empty())
    machine.links.back().spans = machine.devices;
  return added;
}

void addMemory(Machine &machine, uint64_t bytes) {
  for (cost_models::DeviceModel &kind : machine.kinds)
    kind.memoryBytes += std::min(bytes, std::numeric_limits<uint64_t>::max() - kind.memoryBytes);
}

void doubleStreams(Machine &machine) {
  for (cost_models::DeviceModel &kind : machine.kinds)
    kind.rates.stream *= 2;
}

// ---- Names ----------------------------------------------------------------------------------------------------------

std::string edgeName(const CompoundModel &model, size_t index) {
  const cost_models::EdgeModel &edge = model.edges[index];
  return stationName(model, edge.producer, edge.producerStage) + " -> " +
         stationName(model, edge.consumer, edge.consumerStage);
}

std::string stationName(const CompoundModel &model, uint32_t section, uint32_t stage) {
  const cost_models::SectionModel &facts = model.sections[section];
  return facts.stages.size() == 1 ? facts.name : fmt::format("{} stage {}", facts.name, stage);
}

} // namespace maestro::planner
