#include "planner/search/layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::planner {
namespace {

/// Devices that no group is pinned to, ascending.
std::vector<uint32_t> freeDevices(const Layout &layout, const cost_models::Machine &machine) {
  std::vector<uint8_t> taken(machine.devices, 0);
  for (const DeviceGroup &group : layout.groups)
    for (uint32_t device : group.pinned)
      taken[device] = 1;
  std::vector<uint32_t> free;
  for (uint32_t device = 0; device < machine.devices; ++device)
    if (!taken[device])
      free.push_back(device);
  return free;
}

/// By group. Groups of whole nodes come first, so that theirs begin where a node does.
std::vector<std::vector<uint32_t>> numberDevices(const Layout &layout, const cost_models::Machine &machine) {
  std::vector<uint32_t> free = freeDevices(layout, machine);
  std::vector<std::vector<uint32_t>> devices(layout.groups.size());
  size_t next = 0;
  for (bool wholeNodes : {true, false})
    for (size_t g = 0; g < layout.groups.size(); ++g) {
      const DeviceGroup &group = layout.groups[g];
      if ((group.devices % nodeDevices(machine) == 0) != wholeNodes)
        continue;
      devices[g] = group.pinned;
      for (uint32_t i = 0; group.pinned.empty() && i < group.devices; ++i)
        devices[g].push_back(free[next++]);
    }
  return devices;
}

std::vector<std::vector<uint32_t>> stationsOn(const std::vector<uint32_t> &devices, const SectionOption &option,
                                              bool byStage) {
  std::vector<std::vector<uint32_t>> stations(option.replicas);
  for (uint32_t replica = 0; replica < option.replicas; ++replica)
    for (uint32_t stage = 0; stage < option.stages(); ++stage) {
      size_t index = byStage ? size_t{stage} * option.replicas + replica : size_t{replica} * option.stages() + stage;
      stations[replica].push_back(devices[index % devices.size()]);
    }
  return stations;
}

} // namespace

size_t Layout::groupOf(uint32_t section) const {
  for (size_t g = 0; g < groups.size(); ++g)
    if (std::find(groups[g].sections.begin(), groups[g].sections.end(), section) != groups[g].sections.end())
      return g;
  return groups.size();
}

CompoundLayout place(const Layout &layout, const cost_models::Machine &machine) {
  std::vector<std::vector<uint32_t>> devices = numberDevices(layout, machine);
  CompoundLayout choices(layout.sections.size());
  for (size_t g = 0; g < layout.groups.size(); ++g)
    for (uint32_t section : layout.groups[g].sections) {
      const SectionOption &option = layout.sections[section];
      choices[section] = {option.microBatch, stationsOn(devices[g], option, layout.groups[g].byStage),
                          option.moreInFlight};
    }
  return choices;
}

std::vector<SectionCut> cutsOf(const Layout &layout) {
  std::vector<SectionCut> cuts;
  for (const SectionOption &option : layout.sections)
    cuts.push_back(option.cut);
  return cuts;
}

CompoundModel modelOf(const AtomicModel &model, const Layout &layout) {
  return cost_models::compose(model, cutsOf(layout));
}

uint32_t nodeDevices(const cost_models::Machine &machine) {
  return machine.links.empty() ? 1 : machine.links.front().spans;
}

std::set<uint32_t> devicesOf(const cost_models::SectionChoice &choice) {
  std::set<uint32_t> devices;
  for (const std::vector<uint32_t> &replica : choice.devices)
    devices.insert(replica.begin(), replica.end());
  return devices;
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

std::string describe(const AtomicModel &model, const cost_models::Machine &machine, const Layout &layout) {
  CompoundLayout choices = place(layout, machine);
  std::string text;
  for (size_t s = 0; s < layout.sections.size(); ++s) {
    const SectionOption &option = layout.sections[s];
    std::set<uint32_t> devices = devicesOf(choices[s]);
    uint32_t stages = option.stages(), split = option.cut.splitStages;
    const cost_models::MicroBatchCapacity &capacity = model.sections[s].capacities[option.microBatch];
    text += fmt::format("{}{} {}{} on {}, {}", s == 0 ? "" : "; ", model.sections[s].name, option.replicas,
                        stages == 1 ? "" : fmt::format(" x {} stages", stages),
                        ranges({devices.begin(), devices.end()}), describe(capacity));
    if (!option.cut.recompute.isAlike(RecomputeChoice{}))
      text += fmt::format(", {} recompute", textOf(option.cut.recompute));
    if (option.cut.recompute.lossChunks > 1)
      text += fmt::format(", losses in {} chunks", option.cut.recompute.lossChunks);
    if (split > 0)
      text += split == stages ? ", split backward" : fmt::format(", split backward in the last {}", split);
    if (option.moreInFlight > 0)
      text += fmt::format(", {} more in flight", option.moreInFlight);
  }
  return text;
}

} // namespace maestro::planner
