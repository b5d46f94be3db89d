#include "cost_models/collectives.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <vector>

namespace maestro::cost_models {
namespace {

/// One level's part in a group of devices: so many subgroups meet over it.
struct LevelStep {
  const LinkLevel *level = nullptr;
  uint32_t degree = 1;
};

/// Of `numbers`, ascending: how far those go that are in the same group of `spans` as the one at `first`.
size_t endOfGroup(std::span<const uint32_t> numbers, size_t first, uint32_t spans) {
  uint64_t end = (uint64_t{numbers[first]} / spans + 1) * spans;
  size_t next = first + 1;
  while (next < numbers.size() && numbers[next] < end)
    ++next;
  return next;
}

/// Degrees by level, inner to outer; nothing where groups of a level differ in size. `numbers` are devices, ascending;
/// in the end there is one number left.
std::optional<std::vector<LevelStep>> stepsOf(std::vector<uint32_t> numbers, const Machine &machine) {
  std::vector<LevelStep> steps;
  uint32_t unit = 1; // Numbers are those of groups of so many devices.
  for (const LinkLevel &level : machine.links) {
    uint32_t inside = level.spans / unit;
    size_t degree = 0, groups = 0;
    for (size_t first = 0, next; first < numbers.size(); first = next) {
      uint32_t group = numbers[first] / inside;
      next = endOfGroup(numbers, first, inside);
      if (degree != 0 && next - first != degree)
        return std::nullopt;
      degree = next - first;
      numbers[groups++] = group;
    }
    if (degree > 1)
      steps.push_back({&level, static_cast<uint32_t>(degree)});
    numbers.resize(groups);
    unit = level.spans;
  }
  return steps;
}

/// Half an all-reduce around a ring.
void addRing(CommunicationCost &cost, const LinkLevel &level, double degree, double secondsPerByte, double halves) {
  cost.latency += level.latency * (halves * (degree - 1));
  cost.secondsPerByte += halves * secondsPerByte * (degree - 1) / degree;
}

/// Of `devices`, ascending: the fewest in one of the groups of `spans` that have any.
size_t fewestWithin(std::span<const uint32_t> devices, uint32_t spans) {
  if (spans == 1)
    return 1;
  size_t fewest = devices.size();
  for (size_t first = 0, next; first < devices.size(); first = next) {
    next = endOfGroup(devices, first, spans);
    fewest = std::min(fewest, next - first);
  }
  return fewest;
}

/// Of the links, by the slowest level that `devices`, ascending, cross, where as many rings or trees go through them at
/// once as the group with the fewest devices has of them, each over links of its own.
double secondsPerByteOf(const Machine &machine, const LinkLevel &outermost, std::span<const uint32_t> devices) {
  double slowest = 0;
  uint32_t inside = 1;
  for (const LinkLevel &level : machine.links) {
    slowest = std::max(slowest, 1 / (level.bandwidth.value * static_cast<double>(fewestWithin(devices, inside))));
    if (&level == &outermost)
      break;
    inside = level.spans;
  }
  return slowest;
}

void addTree(CommunicationCost &cost, const LinkLevel &level, uint32_t devices, double secondsPerByte) {
  cost.latency += level.latency * (2.0 * std::bit_width(devices - 1));
  cost.secondsPerByte += 2 * secondsPerByte;
}

CommunicationCost hierarchical(const std::vector<LevelStep> &steps, double halves, bool treeOutside) {
  CommunicationCost cost{Exchange::Hierarchical, steps.back().level, {}, 0};
  double share = 1;
  for (const LevelStep &step : steps) {
    double secondsPerByte = share / step.level->bandwidth.value;
    if (treeOutside && &step == &steps.back())
      addTree(cost, *step.level, step.degree, secondsPerByte);
    else
      addRing(cost, *step.level, step.degree, secondsPerByte, halves);
    share /= step.degree;
  }
  return cost;
}

} // namespace

std::optional<uint32_t> linkPeriod(const Machine &machine) {
  if (machine.links.empty() || !machine.kindOf.empty())
    return std::nullopt;
  return machine.links.size() < 2 ? 1 : machine.links[machine.links.size() - 2].spans;
}

CommunicationCost collectiveCost(Collective collective, Bytes bytes, std::span<const uint32_t> devices,
                                 const Machine &machine) {
  if (devices.size() < 2)
    return {};
  if (machine.sharesMemory()) {
    CommunicationCost cost = transferCost(machine, devices[0], devices[1]);
    cost.secondsPerByte *= static_cast<double>(devices.size() - 1);
    return cost;
  }
  std::vector<uint32_t> numbers(devices.begin(), devices.end());
  if (!std::is_sorted(numbers.begin(), numbers.end()))
    std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  size_t count = numbers.size();
  if (count < 2) // All on one device.
    return transferCost(machine, numbers.front(), numbers.front());
  const LinkLevel &outermost = *levelBetween(machine, numbers.front(), numbers.back());
  bool reduces = collective == Collective::AllReduce;
  double halves = reduces ? 2 : 1, gathered = reduces ? 1 : static_cast<double>(count);
  double secondsPerByte = secondsPerByteOf(machine, outermost, numbers);
  std::vector<CommunicationCost> candidates{{Exchange::Ring, &outermost, {}, 0}};
  addRing(candidates.front(), outermost, static_cast<double>(count), secondsPerByte, halves);
  if (reduces)
    addTree(candidates.emplace_back(CommunicationCost{Exchange::Tree, &outermost, {}, 0}), outermost,
            static_cast<uint32_t>(count), secondsPerByte);
  if (auto steps = stepsOf(std::move(numbers), machine); steps && steps->size() > 1) {
    candidates.push_back(hierarchical(*steps, halves, false));
    if (reduces)
      candidates.push_back(hierarchical(*steps, halves, true));
  }
  for (CommunicationCost &candidate : candidates)
    candidate.secondsPerByte *= gathered;
  return *std::min_element(candidates.begin(), candidates.end(),
                           [&](const auto &a, const auto &b) { return a.of(bytes) < b.of(bytes); });
}

CommunicationCost reductionCost(Bytes gradients, std::span<const uint32_t> devices, const Machine &machine) {
  if (devices.size() < 2)
    return {};
  if (!machine.sharesMemory())
    return collectiveCost(Collective::AllReduce, gradients, devices, machine);
  double moved = 2 + 1 + 1.0 / static_cast<double>(devices.size()) + 2;
  return {Exchange::SharedMemory, nullptr, {}, moved / slowestStream(machine, devices).value};
}

Seconds reductionSeconds(uint64_t gradientBytes, std::span<const uint32_t> devices, const Machine &machine) {
  return reductionCost(Bytes(static_cast<double>(gradientBytes)), devices, machine)
      .of(Bytes(static_cast<double>(gradientBytes)));
}

} // namespace maestro::cost_models
