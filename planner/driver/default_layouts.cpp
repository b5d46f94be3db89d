#include "planner/driver/default_layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace maestro::planner {

/// Large enough that products run at full speed, small enough that the activations stay few: the fewest samples whose
/// padded tokens reach kEnoughTokens at the bounds.
MicroBatchChoice defaultMicroBatch(const GraphSummary &graph, int64_t globalBatch) {
  constexpr int64_t kEnoughTokens = 1024;
  int64_t tokens = 1;
  for (const GraphDim &dim : graph.dims)
    if (!dim.sum)
      tokens = std::max(tokens, dim.max);
  int64_t samples = std::clamp<int64_t>((kEnoughTokens + tokens - 1) / tokens, 1, globalBatch);
  return {std::min(std::max<int64_t>(samples, 4), globalBatch),
          fmt::format("the fewest samples, but 4, whose padded positions reach {} at the bounds", kEnoughTokens)};
}

namespace {

/// A device given twice, or given and left idle, is a mistake.
Status checkPlaces(const SectionFacts &section, const Pins &pins, std::vector<uint32_t> list) {
  std::sort(list.begin(), list.end());
  if (auto twice = std::adjacent_find(list.begin(), list.end()); twice != list.end())
    return Status::invalidInput(
        fmt::format("{}: names device {} twice; name each once", pins.asGiven(section.name, "devices"), *twice));
  auto replicas = pins.of(section.name, &SectionPins::dataParallel),
       stages = pins.of(section.name, &SectionPins::stages);
  size_t used = static_cast<size_t>(replicas.value_or(0) * stages.value_or(0) * section.tensor);
  if (replicas && stages && used < list.size())
    return Status::invalidInput(
        fmt::format("{} names {} devices, and {} with {} uses {} of them; pin as many as are used, or leave one of the "
                    "pins out",
                    pins.asGiven(section.name, "devices"), list.size(), pins.asGiven(section.name, "dp"),
                    pins.asGiven(section.name, "stages"), used));
  return Status();
}

Status placeDevices(SectionLayout &layout, const SectionFacts &section, const Pins &pins, uint32_t devices) {
  std::vector<uint32_t> list;
  if (auto pinned = pins.of(section.name, &SectionPins::devices)) {
    list = *pinned;
    for (uint32_t device : list)
      if (device >= devices)
        return Status::invalidInput(fmt::format(
            "--pin {}.devices names device {}, and there are {} (0 to {}); pin others, or set cluster.devices_per_node",
            section.name, device, devices, devices - 1));
    MAESTRO_TRY(checkPlaces(section, pins, list));
  } else {
    for (uint32_t device = 0; device < devices; ++device)
      list.push_back(device);
  }
  size_t tensor = static_cast<size_t>(section.tensor), width = static_cast<size_t>(section.stages) * tensor;
  if (list.size() < tensor || (tensor > 1 && list.size() % tensor != 0))
    return Status::invalidInput(
        fmt::format("--pin {0}.tensor={1}: {2} devices cannot be grouped by {1}; pin {0}.devices to a "
                    "multiple of {1}, or set cluster.devices_per_node",
                    section.name, tensor, list.size()));
  size_t replicas = static_cast<size_t>(pins.of(section.name, &SectionPins::dataParallel)
                                            .value_or(static_cast<int64_t>(std::max<size_t>(list.size() / width, 1))));
  layout.stages = section.stages;
  layout.tensor = section.tensor;
  layout.devices.assign(replicas, std::vector<uint32_t>(width));
  for (size_t replica = 0; replica < replicas; ++replica)
    for (size_t place = 0; place < width; ++place)
      layout.devices[replica][place] = list[(replica * width + place) % list.size()];
  return Status();
}

/// Devices that share one section's tensors run all else together, too: a group takes the place of one device.
Status checkGroups(const std::map<std::string, SectionLayout> &layouts) {
  std::map<uint32_t, std::pair<std::string, std::vector<uint32_t>>>
      groupOf; // By device: a section that uses it, and how.
  for (const auto &[name, layout] : layouts)
    for (size_t replica = 0; replica < layout.replicas(); ++replica)
      for (size_t stage = 0; stage < static_cast<size_t>(layout.stages); ++stage) {
        std::vector<uint32_t> group = layout.group(replica, stage);
        for (uint32_t device : group) {
          auto [found, isNew] = groupOf.try_emplace(device, name, group);
          const auto &[other, theirs] = found->second;
          if (theirs != group)
            return Status::invalidInput(fmt::format("section '{}' runs on device{} {} and section '{}' on {}: devices "
                                                    "that share tensors are shared whole or not at "
                                                    "all; pin devices of their own to one of them (--pin {}.devices=…)",
                                                    other, theirs.size() > 1 ? "s" : "", fmt::join(theirs, ","), name,
                                                    fmt::join(group, ","), theirs.size() > 1 ? name : other));
        }
      }
  return Status();
}

/// In samples, or in padded tokens: as many as so many of the longest samples have.
Status pinMicroBatch(const std::string &section, const Pins &pins, const GraphSummary &graph, int64_t globalBatch,
                     SectionLayout &layout) {
  auto own = pins.all().find(section);
  bool saysItself = own != pins.all().end() && (own->second.microBatch || own->second.microBatchTokens);
  auto samples = saysItself ? own->second.microBatch : pins.of(section, &SectionPins::microBatch);
  auto tokens = saysItself ? own->second.microBatchTokens : pins.of(section, &SectionPins::microBatchTokens);
  if (!samples && !tokens)
    return Status();
  if (samples && tokens)
    return Status::invalidInput(fmt::format("{} contradicts {}; give one of them",
                                            pins.asGiven(section, "micro_batch_tokens"),
                                            pins.asGiven(section, "micro_batch")));
  int64_t longest = 0;
  for (const GraphDim &dim : graph.dims)
    longest = dim.sum ? longest : std::max(longest, (dim.max + dim.multipleOf - 1) / dim.multipleOf * dim.multipleOf);
  if (tokens && longest == 0)
    return Status::invalidInput(
        fmt::format("{}: nothing is padded here; use micro_batch", pins.asGiven(section, "micro_batch_tokens")));
  if (tokens && *tokens < longest)
    return Status::invalidInput(
        fmt::format("{}: a sample may have {} tokens, and must fit; give that much at least, or lower its dim's max",
                    pins.asGiven(section, "micro_batch_tokens"), longest));
  layout.microBatch = std::min(tokens ? *tokens / longest : *samples, globalBatch);
  layout.microBatchReason = "pinned";
  layout.microBatchIsPinned = true;
  layout.isCountedInSamples = samples.has_value();
  return Status();
}

} // namespace

Result<std::map<std::string, SectionLayout>> chooseLayouts(const std::vector<SectionFacts> &sections, const Pins &pins,
                                                           const GraphSummary &graph, int64_t globalBatch,
                                                           uint32_t devices) {
  std::map<std::string, SectionLayout> layouts;
  for (const SectionFacts &section : sections) {
    SectionLayout &layout = layouts[section.name];
    MicroBatchChoice usual = defaultMicroBatch(graph, globalBatch);
    layout.microBatch = usual.samples;
    layout.microBatchReason = std::move(usual.reason);
    MAESTRO_TRY(pinMicroBatch(section.name, pins, graph, globalBatch, layout));
    layout.moreInFlight = pins.of(section.name, &SectionPins::moreInFlight).value_or(0);
    MAESTRO_TRY(placeDevices(layout, section, pins, devices));
  }
  MAESTRO_TRY(checkGroups(layouts));
  return layouts;
}

} // namespace maestro::planner
