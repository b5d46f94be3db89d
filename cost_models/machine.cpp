#include "cost_models/machine.h"

#include <fmt/format.h>

#include <algorithm>

namespace maestro::cost_models {
namespace {

Status wrongMachine(std::string what) { return Status::invalidInput("machine: " + what); }

Status checkLinks(const Machine &machine) {
  uint32_t inner = 1;
  for (const LinkLevel &level : machine.links) {
    if (level.spans < 1 || level.spans % inner != 0)
      return wrongMachine(fmt::format("link '{}' spans {} devices, no multiple of the {} of the link inside it",
                                      level.name, level.spans, inner));
    if (!(level.bandwidth.value > 0) || !(level.latency.value >= 0))
      return wrongMachine(fmt::format("link '{}' has a bandwidth of {} B/s and a latency of {} s", level.name,
                                      level.bandwidth.value, level.latency.value));
    inner = level.spans;
  }
  if (!machine.links.empty() && inner != machine.devices)
    return wrongMachine(fmt::format("its outermost link '{}' spans {} of {} devices", machine.links.back().name, inner,
                                    machine.devices));
  return Status();
}

const char *nameOf(Exchange exchange) {
  switch (exchange) {
  case Exchange::None:
    return "nothing";
  case Exchange::SharedMemory:
    return "shared memory";
  case Exchange::OnDevice:
    return "a copy on the device";
  case Exchange::Direct:
    return "direct";
  case Exchange::Stages:
    return "in stages";
  }
  return "";
}

} // namespace

Status check(const Machine &machine) {
  if (machine.devices < 1 || machine.kinds.empty())
    return wrongMachine("has no devices");
  if (!machine.kindOf.empty() && machine.kindOf.size() != machine.devices)
    return wrongMachine(fmt::format("says the kind of {} of {} devices", machine.kindOf.size(), machine.devices));
  for (uint32_t kind : machine.kindOf)
    if (kind >= machine.kinds.size())
      return wrongMachine(fmt::format("has a device of kind {}, of {}", kind, machine.kinds.size()));
  return checkLinks(machine);
}

Machine machineOfOne(const Machine &machine, uint32_t kind) {
  Machine one = machine;
  one.devices = 1;
  one.kinds = {machine.kinds[kind]};
  one.kindOf.clear();
  one.links.clear();
  return one;
}

const LinkLevel *levelBetween(const Machine &machine, uint32_t a, uint32_t b) {
  if (a == b)
    return nullptr;
  for (const LinkLevel &level : machine.links)
    if (a / level.spans == b / level.spans)
      return &level;
  return machine.links.empty() ? nullptr : &machine.links.back();
}

CommunicationCost transferCost(const Machine &machine, uint32_t from, uint32_t to) {
  const DeviceRates &rates = machine.device(from).rates;
  if (machine.sharesMemory())
    return {Exchange::SharedMemory, nullptr, rates.wake, 1 / rates.channel.value};
  if (from == to) // Read and written in the same memory.
    return {Exchange::OnDevice, nullptr, rates.call, 2 / rates.stream.value};
  const LinkLevel *level = levelBetween(machine, from, to);
  return {Exchange::Direct, level, level->latency, 1 / level->bandwidth.value};
}

/// Groups of a level are consecutive, so that the slowest pair is one of the lowest with the highest number.
CommunicationCost transferCost(const Machine &machine, std::span<const uint32_t> from, std::span<const uint32_t> to) {
  auto [firstFrom, lastFrom] = std::minmax_element(from.begin(), from.end());
  auto [firstTo, lastTo] = std::minmax_element(to.begin(), to.end());
  return wider(transferCost(machine, *firstFrom, *lastTo), transferCost(machine, *lastFrom, *firstTo));
}

const CommunicationCost &wider(const CommunicationCost &a, const CommunicationCost &b) {
  if (a.level && b.level)
    return a.level->spans >= b.level->spans ? a : b;
  return b.level || a.exchange == Exchange::None ? b : a;
}

std::vector<const DeviceModel *> kindsOf(const Machine &machine, std::span<const uint32_t> devices) {
  std::vector<const DeviceModel *> kinds;
  std::vector<uint8_t> seen(machine.kinds.size(), 0);
  for (uint32_t device : machine.kindOf.empty() ? devices.first(1) : devices)
    if (uint32_t kind = machine.kindIndex(device); !seen[kind]++)
      kinds.push_back(&machine.kinds[kind]);
  return kinds;
}

BytesPerSecond slowestStream(const Machine &machine, std::span<const uint32_t> devices) {
  BytesPerSecond least = machine.device(devices.front()).rates.stream;
  for (const DeviceModel *kind : kindsOf(machine, devices))
    least = std::min(least, kind->rates.stream);
  return least;
}

std::string describe(const CommunicationCost &cost) {
  std::string text = nameOf(cost.exchange);
  if (cost.level)
    text += " over " + cost.level->name;
  if (cost.exchange != Exchange::None)
    text += fmt::format(": {:.3g} us, then {:.3g} GB/s", cost.latency.value * 1e6, 1e-9 / cost.secondsPerByte);
  return text;
}

} // namespace maestro::cost_models
