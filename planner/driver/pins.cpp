#include "planner/driver/pins.h"

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

/// Every chunk has calls of its own.
Result<int64_t> lossChunks(const Pin &pin) {
  constexpr int64_t kMost = 256;
  MAESTRO_ASSIGN(int64_t count, positive(pin));
  if (count > kMost)
    return Status::invalidInput(fmt::format("{}: at most {}", text(pin), kMost));
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

Result<Pin> parsePin(const std::string &text) {
  size_t equals = text.find('='), dot = text.rfind('.', equals);
  if (equals == std::string::npos || dot == std::string::npos || dot == 0 || dot + 1 == equals ||
      equals + 1 == text.size())
    return Status::invalidInput(
        fmt::format("--pin {}: write SECTION.PROPERTY=VALUE, for example student.micro_batch=4", text));
  return Pin{text.substr(0, dot), text.substr(dot + 1, equals - dot - 1), text.substr(equals + 1)};
}

Result<Pins> Pins::parse(const std::vector<Pin> &list) {
  static const std::vector<std::string> properties = {
      "dp",      "stages",    "tensor",         "micro_batch", "micro_batch_tokens", "more_in_flight",
      "devices", "recompute", "split_backward", "loss_chunks", "precision"};
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
    } else if (pin.property == "loss_chunks") {
      MAESTRO_ASSIGN(own.lossChunks, lossChunks(pin));
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
    if (pins.lossChunks)
      options.lossChunks[section] = *pins.lossChunks;
  }
  return options;
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

} // namespace maestro::planner
