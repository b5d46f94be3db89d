#include "planner/search/explain_options.h"

#include "planner/search/search_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

namespace maestro::planner {
namespace {

using cost_models::Machine;
using Devices = std::set<uint32_t>;

Devices allOf(const Machine &machine) {
  Devices all;
  for (uint32_t device = 0; device < machine.devices; ++device)
    all.insert(all.end(), device);
  return all;
}

std::string words(const LayoutOption &option) {
  size_t replicas = option.devices.size(), stages = option.cut.stages();
  Devices devices = devicesOf(option);
  return fmt::format("{} replica{}{} on {}", replicas, replicas == 1 ? "" : "s",
                     stages == 1 ? "" : fmt::format(" of {} stages", stages), ranges({devices.begin(), devices.end()}));
}

/// Collects layouts, each once.
class Collector {
public:
  Collector(const SearchProblem &problem, const WorkTable &work, const Layout &layout, uint32_t section)
      : problem(problem), work(work), layout(layout), section(section) {}

  const LayoutOption &current() const { return layout[section]; }
  size_t stages() const { return current().cut.stages(); }

  void add(LayoutOption option, std::string words) {
    if (option == current() || !seen.insert(option).second)
      return;
    Option &added = options.emplace_back(Option{section, layout, std::move(words)});
    added.layout[section] = std::move(option);
  }

  void addPlaced(const SectionCut &cut, size_t replicas, const Devices &devices) {
    LayoutOption option =
        placed(cut, current().microBatch, replicas, {devices.begin(), devices.end()}, isByStage(current()));
    option.moreInFlight = current().moreInFlight;
    std::string text = words(option);
    add(std::move(option), std::move(text));
  }

  /// On these devices, with as many replicas as they have room for.
  void addOn(const Devices &devices) { addOn(devices, current().cut); }
  void addOn(const Devices &devices, const SectionCut &cut) {
    if (devices.size() >= cut.stages())
      addPlaced(cut, devices.size() / cut.stages(), devices);
  }

  void microBatches() {
    const std::vector<cost_models::MicroBatchCapacity> &capacities = problem.model.sections[section].capacities;
    for (uint32_t m = 0; m < capacities.size(); ++m) {
      LayoutOption option = current();
      if (isSame(capacities[m], capacities[option.microBatch]))
        continue;
      option.microBatch = m;
      add(std::move(option), describe(problem.model.sections[section].capacities[m]));
    }
  }

  void replicas() {
    Devices devices = devicesOf(current());
    size_t now = current().devices.size(), most = std::max<size_t>(1, devices.size() / stages());
    for (size_t degree : {now / 2, now - 1, now + 1, now * 2, most})
      if (degree >= 1 && degree <= most && degree != now)
        addPlaced(current().cut, degree, devices);
  }

  /// Cut as evenly as its layers allow.
  SectionCut cutInto(size_t stages) const {
    auto atoms = static_cast<uint32_t>(problem.model.sections[section].classOf.size());
    return {evenCut(work, section, atoms, current().cut.recompute, current().microBatch, static_cast<uint32_t>(stages)),
            current().cut.recompute, std::min(current().cut.splitStages, static_cast<uint32_t>(stages))};
  }

  void otherStages(const Devices &devices, size_t least) {
    size_t atoms = problem.model.sections[section].classOf.size(), now = stages();
    for (size_t count : {now / 2, now - 1, now + 1, now * 2})
      if (count >= least && count != now && count <= std::min(atoms, devices.size()))
        addOn(devices, cutInto(count));
  }

  void otherRecompute() {
    const cost_models::AtomicSection &chain = problem.model.sections[section];
    for (Recompute most : kRecomputes)
      for (uint32_t parts : {kLighterParts / 2, 0u}) {
        std::optional<RecomputeChoice> recompute = choiceOf(problem.model, section, most, parts);
        if (!recompute || *recompute == current().cut.recompute ||
            !chain.has(*recompute, current().cut.splitStages > 0))
          continue;
        LayoutOption option = current();
        option.cut.recompute = *recompute;
        add(std::move(option), textOf(*recompute));
      }
  }

  void otherSplits() {
    auto all = static_cast<uint32_t>(stages());
    for (uint32_t split : {0u, all / 2, all}) {
      LayoutOption option = current();
      if (split == option.cut.splitStages || !problem.model.sections[section].has(option.cut.recompute, split > 0))
        continue;
      option.cut.splitStages = split;
      add(option, split == 0 ? "no" : split == all ? "all" : std::to_string(split));
    }
  }

  void otherInFlight() {
    for (uint32_t more : kMoreInFlight) {
      LayoutOption option = current();
      option.moreInFlight = more;
      add(std::move(option), std::to_string(more));
    }
  }

  /// All of the machine, one fewer, those of another section, both its own and those, or its own without those.
  void otherDevices() {
    Devices own = devicesOf(current());
    addOn(allOf(problem.machine));
    if (own.size() > 1)
      addOn({own.begin(), std::prev(own.end())});
    for (size_t s = 0; s < layout.size(); ++s) {
      if (s == section)
        continue;
      Devices theirs = devicesOf(layout[s]), both = own, rest;
      both.insert(theirs.begin(), theirs.end());
      std::set_difference(own.begin(), own.end(), theirs.begin(), theirs.end(), std::inserter(rest, rest.end()));
      addOn(theirs);
      addOn(both);
      addOn(rest);
    }
  }

  std::vector<Option> take() { return std::move(options); }

private:
  const SearchProblem &problem;
  const WorkTable &work;
  const Layout &layout;
  uint32_t section;
  std::set<LayoutOption> seen;
  std::vector<Option> options;
};

/// All sections that share the section's devices, on more of them; nothing where it has them to itself.
std::optional<Option> sharedOnMore(const Layout &layout, uint32_t section, const Devices &devices) {
  Option option{section, layout, ""};
  Devices own = devicesOf(layout[section]);
  size_t sharing = 0;
  for (uint32_t s = 0; s < layout.size(); ++s) {
    size_t replicas = devices.size() / layout[s].cut.stages();
    if (devicesOf(layout[s]) != own || replicas <= layout[s].devices.size())
      continue;
    option.layout[s] =
        placed(layout[s].cut, layout[s].microBatch, replicas, {devices.begin(), devices.end()}, isByStage(layout[s]));
    option.layout[s].moreInFlight = layout[s].moreInFlight;
    ++sharing;
  }
  if (sharing < 2)
    return std::nullopt;
  option.choice = fmt::format("with all that share its devices: {}", words(option.layout[section]));
  return option;
}

/// All sections in so many stages, with each size of micro-batches: what lacks least.
uint64_t leastMissing(const SearchProblem &problem, const WorkTable &work, const Placement &placement,
                      uint32_t stages) {
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (uint32_t m = 0; m < problem.model.microBatches.size(); ++m) {
    Layout layout;
    for (uint32_t s = 0; s < placement.size(); ++s) {
      auto atoms = static_cast<uint32_t>(problem.model.sections[s].classOf.size());
      uint32_t count = std::min({stages, atoms, static_cast<uint32_t>(placement[s].size())});
      SectionCut cut{evenCut(work, s, atoms, {}, m, count), {}};
      layout.push_back(placed(cut, m, placement[s].size() / count, placement[s]));
    }
    least = std::min(least, missingBytes(modelOf(problem, layout), problem.machine, choicesOf(layout)));
  }
  return least;
}

} // namespace

const char *nameOf(Decided decided) {
  constexpr const char *kNames[] = {"micro_batch",    "dp",     "stages", "recompute", "split_backward",
                                    "more_in_flight", "devices"};
  return kNames[static_cast<size_t>(decided)];
}

std::vector<Option> optionsOf(const SearchProblem &problem, const WorkTable &work, const Layout &layout,
                              uint32_t section, Decided decided) {
  Collector collector(problem, work, layout, section);
  switch (decided) {
  case Decided::MicroBatch:
    collector.microBatches();
    break;
  case Decided::Replicas:
    collector.replicas();
    break;
  case Decided::Stages:
    collector.otherStages(devicesOf(layout[section]), 1);
    break;
  case Decided::Recompute:
    collector.otherRecompute();
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

std::vector<Option> optionsOnMore(const SearchProblem &problem, const WorkTable &work, const Layout &layout,
                                  uint32_t section, uint32_t firstNew) {
  Collector collector(problem, work, layout, section);
  Devices devices = devicesOf(layout[section]);
  for (uint32_t device = firstNew; device < problem.machine.devices; ++device)
    devices.insert(device);
  if (devices.size() / collector.stages() > layout[section].devices.size())
    collector.addOn(devices);
  collector.otherStages(devices, collector.stages() + 1);
  std::vector<Option> options = collector.take();
  if (std::optional<Option> shared = sharedOnMore(layout, section, devices))
    options.push_back(std::move(*shared));
  return options;
}

// ---- The machine ----------------------------------------------------------------------------------------------------

uint64_t missingBytes(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout) {
  std::vector<uint64_t> bytes = cost_models::deviceBytes(model, machine, layout);
  uint64_t missing = 0;
  for (uint32_t device = 0; device < bytes.size(); ++device)
    missing = std::max(missing, bytes[device] - std::min(bytes[device], machine.memoryBytes(device)));
  return missing;
}

uint64_t missingBytes(const SearchProblem &problem, const WorkTable &work, const std::string &baseline) {
  if (baseline == "static split")
    return leastMissing(problem, work, staticSplit(problem, work), 1);
  Devices all = allOf(problem.machine);
  Placement everywhere(problem.model.sections.size(), {all.begin(), all.end()});
  uint64_t least = leastMissing(problem, work, everywhere, 1);
  for (uint32_t stages = 2; baseline == "one layout for all" && stages <= std::min(8u, problem.machine.devices);
       stages *= 2)
    least = std::min(least, leastMissing(problem, work, everywhere, stages));
  return least;
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
