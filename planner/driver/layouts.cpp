#include "planner/driver/layouts.h"

#include "base/nearest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace maestro::planner {
namespace {

std::string text(const Pin &pin) { return fmt::format("--pin {}.{}={}", pin.section, pin.property, pin.value); }

bool parseNumber(std::string_view text, int64_t &value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

Result<int64_t> positive(const Pin &pin) {
  constexpr int64_t kMost = int64_t{1} << 20;
  int64_t value = 0;
  if (!parseNumber(pin.value, value) || value < 1 || value > kMost)
    return Status::invalidInput(fmt::format("{}: must be an integer from 1 to {}", text(pin), kMost));
  return value;
}

/// "0-3,6": device numbers and ranges of them.
Result<std::vector<uint32_t>> deviceList(const Pin &pin) {
  constexpr int64_t kMost = 1 << 20;
  std::vector<uint32_t> list;
  std::string_view rest = pin.value;
  Status wrong =
      Status::invalidInput(fmt::format("{}: write device numbers and ranges, for example 0-3 or 0,2", text(pin)));
  while (!rest.empty()) {
    size_t comma = std::min(rest.find(','), rest.size());
    std::string_view item = rest.substr(0, comma);
    rest = comma < rest.size() ? rest.substr(comma + 1) : std::string_view();
    size_t dash = item.find('-');
    int64_t first = 0, last = 0;
    bool isRange = dash != std::string_view::npos;
    if (!parseNumber(item.substr(0, dash), first) || (isRange && !parseNumber(item.substr(dash + 1), last)))
      return wrong;
    last = isRange ? last : first;
    if (first < 0 || last < first || last >= kMost)
      return wrong;
    for (int64_t device = first; device <= last; ++device)
      list.push_back(static_cast<uint32_t>(device));
  }
  if (list.empty())
    return wrong;
  return list;
}

Result<RecomputeChoice> recomputeChoice(const Pin &pin) {
  if (std::optional<RecomputeChoice> choice = recomputeChoiceFromText(pin.value))
    return *choice;
  return Status::invalidInput(fmt::format(
      "{}: must be {}, or less layers that keep what the one before keeps, the last ones (full-4) or evenly among "
      "all (full-4-evenly)",
      text(pin), fmt::join(kRecomputeNames, ", ")));
}

/// Micro-batches in flight beside the usual ones: a pin of 0 keeps to these.
Result<int64_t> moreInFlight(const Pin &pin) {
  if (pin.value == "0")
    return 0;
  MAESTRO_ASSIGN(int64_t more, positive(pin));
  if (more > cost_models::kMostSlots)
    return Status::invalidInput(fmt::format("{}: at most {}", text(pin), cost_models::kMostSlots));
  return more;
}

/// In how many stages, the last ones, backward is split.
Result<int64_t> splitStages(const Pin &pin) {
  if (pin.value == "no" || pin.value == "all")
    return pin.value == "no" ? 0 : kAllStages;
  int64_t count = 0;
  if (!parseNumber(pin.value, count) || count < 0 || count > kAllStages)
    return Status::invalidInput(fmt::format("{}: must be no, all, or in how many stages, the last ones", text(pin)));
  return count;
}

Result<DType> precisionChoice(const Pin &pin) {
  if (pin.value == "f32")
    return DType::F32;
  if (pin.value == "bf16")
    return DType::BF16;
  return Status::invalidInput(fmt::format("{}: must be f32 or bf16", text(pin)));
}

} // namespace

Result<Pins> Pins::parse(const std::vector<Pin> &list) {
  static const std::vector<std::string> properties = {
      "dp",      "stages",    "tensor",         "micro_batch", "micro_batch_tokens", "more_in_flight",
      "devices", "recompute", "split_backward", "precision"};
  Pins pins;
  pins.given = list;
  std::map<std::pair<std::string, std::string>, std::string> seen;
  for (const Pin &pin : list) {
    auto [earlier, isNew] = seen.try_emplace({pin.section, pin.property}, pin.value);
    if (!isNew && earlier->second != pin.value)
      return Status::invalidInput(fmt::format("{} contradicts --pin {}.{}={}; give one of them", text(pin), pin.section,
                                              pin.property, earlier->second));
    SectionPins &own = pins.bySection[pin.section];
    if (pin.property == "dp") {
      MAESTRO_ASSIGN(own.dataParallel, positive(pin));
    } else if (pin.property == "stages") {
      MAESTRO_ASSIGN(own.stages, positive(pin));
    } else if (pin.property == "tensor") {
      MAESTRO_ASSIGN(own.tensor, positive(pin));
    } else if (pin.property == "micro_batch") {
      MAESTRO_ASSIGN(own.microBatch, positive(pin));
    } else if (pin.property == "micro_batch_tokens") {
      MAESTRO_ASSIGN(own.microBatchTokens, positive(pin));
    } else if (pin.property == "more_in_flight") {
      MAESTRO_ASSIGN(own.moreInFlight, moreInFlight(pin));
    } else if (pin.property == "devices") {
      MAESTRO_ASSIGN(own.devices, deviceList(pin));
    } else if (pin.property == "recompute") {
      MAESTRO_ASSIGN(own.recompute, recomputeChoice(pin));
    } else if (pin.property == "split_backward") {
      MAESTRO_ASSIGN(own.splitBackward, splitStages(pin));
    } else if (pin.property == "precision") {
      MAESTRO_ASSIGN(own.precision, precisionChoice(pin));
    } else {
      return Status::invalidInput(
          fmt::format("{}: unknown property '{}'{}", text(pin), pin.property, didYouMean(pin.property, properties)));
    }
  }
  return pins;
}

Status Pins::check(const std::vector<std::string> &sections) const {
  for (const Pin &pin : given)
    if (pin.section != "*" && std::find(sections.begin(), sections.end(), pin.section) == sections.end())
      return Status::invalidInput(
          fmt::format("{}: unknown section '{}'{}", text(pin), pin.section, didYouMean(pin.section, sections)));
  return Status();
}

PartitionOptions Pins::partition(const Workload &workload) const {
  PartitionOptions options;
  for (const ComponentSpec &component : workload.components)
    for (const std::string &scope : component.cuts)
      options.cuts.push_back(component.name + "." + scope);
  for (const auto &[section, pins] : bySection) {
    if (pins.stages)
      options.stages[section] = *pins.stages;
    if (pins.tensor)
      options.tensor[section] = *pins.tensor;
    if (pins.recompute)
      options.recompute[section] = *pins.recompute;
    if (pins.splitBackward)
      options.splitBackward[section] = *pins.splitBackward;
  }
  return options;
}

Status checkCuts(const Workload &workload, const GraphSummary &graph) {
  for (const ComponentSpec &component : workload.components) {
    std::set<std::string> modules;
    for (const GraphParameter &parameter : graph.parameters)
      for (size_t dot = parameter.info.name.find('.');
           parameter.component == component.name && dot != std::string::npos;
           dot = parameter.info.name.find('.', dot + 1))
        modules.insert(parameter.info.name.substr(0, dot));
    for (const std::string &scope : component.cuts)
      if (!modules.count(scope))
        return Status::invalidInput(
            fmt::format("{}: components.{}.cuts: '{}' is no module with parameters{}", component.place, component.name,
                        scope, didYouMean(scope, std::vector<std::string>(modules.begin(), modules.end()))));
  }
  return Status();
}

std::string Pins::asGiven(const std::string &section, const std::string &property) const {
  std::string found;
  for (const Pin &pin : given)
    if (pin.property == property && (pin.section == section || (pin.section == "*" && found.empty())))
      found = text(pin);
  return found;
}

bool Pins::splitsTensors() const {
  return std::any_of(bySection.begin(), bySection.end(),
                     [](const auto &entry) { return entry.second.tensor.value_or(1) > 1; });
}

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
