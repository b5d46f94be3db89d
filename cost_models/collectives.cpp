#include "cost_models/collectives.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

namespace maestro::cost_models {
namespace {

/// One level's part in a group of devices: so many subgroups meet over it.
struct Step {
  const LinkLevel *level = nullptr;
  uint32_t degree = 1;
};

/// Degrees by level, inner to outer; nothing where groups of a level differ in size. `numbers` are devices, ascending; in the end
/// there is one number left.
std::optional<std::vector<Step>> stepsOf(std::vector<uint32_t> numbers, const Machine &machine) {
  std::vector<Step> steps;
  uint32_t unit = 1; // Numbers are those of groups of so many devices.
  for (const LinkLevel &level : machine.links) {
    uint32_t inside = level.spans / unit;
    std::vector<uint32_t> groups;
    uint32_t degree = 0, count = 0;
    for (size_t i = 0; i < numbers.size(); ++i) {
      ++count;
      uint32_t group = numbers[i] / inside;
      if (i + 1 < numbers.size() && numbers[i + 1] / inside == group)
        continue;
      if (degree != 0 && count != degree)
        return std::nullopt;
      degree = count;
      count = 0;
      groups.push_back(group);
    }
    if (degree > 1)
      steps.push_back({&level, degree});
    numbers = std::move(groups);
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
uint32_t fewestWithin(std::span<const uint32_t> devices, uint32_t spans) {
  uint32_t fewest = UINT32_MAX, count = 0;
  for (size_t i = 0; i < devices.size(); ++i) {
    ++count;
    if (i + 1 == devices.size() || devices[i + 1] / spans != devices[i] / spans)
      fewest = std::min(fewest, std::exchange(count, 0));
  }
  return fewest;
}

/// Of the links, by the slowest level that `devices`, ascending, cross, where as many rings or trees go through them at once as the group
/// with the fewest devices has of them, each over links of its own.
double secondsPerByteOf(const Machine &machine, const LinkLevel &outermost, std::span<const uint32_t> devices) {
  double slowest = 0;
  uint32_t inside = 1;
  for (const LinkLevel &level : machine.links) {
    slowest = std::max(slowest, 1 / (level.bandwidth.value * fewestWithin(devices, inside)));
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

CommunicationCost hierarchical(const std::vector<Step> &steps, double halves, bool treeOutside) {
  CommunicationCost cost{Exchange::Hierarchical, steps.back().level, {}, 0};
  double share = 1;
  for (const Step &step : steps) {
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

CommunicationCost collectiveCost(Collective collective, Bytes bytes, std::span<const uint32_t> devices, const Machine &machine) {
  if (devices.size() < 2)
    return {};
  if (machine.sharesMemory()) {
    CommunicationCost cost = transferCost(machine, devices[0], devices[1]);
    cost.secondsPerByte *= static_cast<double>(devices.size() - 1);
    return cost;
  }
  std::vector<uint32_t> numbers(devices.begin(), devices.end());
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
    addTree(candidates.emplace_back(CommunicationCost{Exchange::Tree, &outermost, {}, 0}), outermost, static_cast<uint32_t>(count), secondsPerByte);
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
  return reductionCost(Bytes(static_cast<double>(gradientBytes)), devices, machine).of(Bytes(static_cast<double>(gradientBytes)));
}

} // namespace maestro::cost_models
