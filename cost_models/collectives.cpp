#include "cost_models/collectives.h"

#include <algorithm>
#include <bit>
#include <optional>
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
void addRing(CommunicationCost &cost, const LinkLevel &level, double degree, double share, double halves) {
  cost.latency += level.latency * (halves * (degree - 1));
  cost.secondsPerByte += halves * share * (degree - 1) / degree / level.bandwidth.value;
}

CommunicationCost ring(const LinkLevel &level, size_t devices, double halves) {
  CommunicationCost cost{Exchange::Ring, &level, {}, 0};
  addRing(cost, level, static_cast<double>(devices), 1, halves);
  return cost;
}

void addTree(CommunicationCost &cost, const LinkLevel &level, uint32_t devices, double share) {
  cost.latency += level.latency * (2.0 * std::bit_width(devices - 1));
  cost.secondsPerByte += 2 * share / level.bandwidth.value;
}

CommunicationCost tree(const LinkLevel &level, size_t devices) {
  CommunicationCost cost{Exchange::Tree, &level, {}, 0};
  addTree(cost, level, static_cast<uint32_t>(devices), 1);
  return cost;
}

CommunicationCost hierarchical(const std::vector<Step> &steps, double halves, bool treeOutside) {
  CommunicationCost cost{Exchange::Hierarchical, steps.back().level, {}, 0};
  double share = 1;
  for (const Step &step : steps) {
    if (treeOutside && &step == &steps.back())
      addTree(cost, *step.level, step.degree, share);
    else
      addRing(cost, *step.level, step.degree, share, halves);
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
  std::vector<CommunicationCost> candidates{ring(outermost, count, halves)};
  if (reduces)
    candidates.push_back(tree(outermost, count));
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
