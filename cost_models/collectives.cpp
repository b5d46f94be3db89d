#include "cost_models/collectives.h"

#include <algorithm>
#include <functional>
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

/// Half an all-reduce between `devices`, ascending, by the level that takes longest.
CommunicationCost direct(const Machine &machine, std::span<const uint32_t> devices) {
  const LinkLevel &outermost = *levelBetween(machine, devices.front(), devices.back());
  CommunicationCost cost{Exchange::Direct, &outermost, outermost.latency, 0};
  uint32_t inside = 1;
  auto count = static_cast<double>(devices.size());
  for (const LinkLevel &level : machine.links) {
    double leave = count - static_cast<double>(fewestWithin(devices, inside));
    cost.secondsPerByte = std::max(cost.secondsPerByte, leave / count / level.bandwidth.value);
    if (&level == &outermost)
      break;
    inside = level.spans;
  }
  return cost;
}

/// Half of a sum.
CommunicationCost inStages(std::span<const LevelStep> steps) {
  CommunicationCost cost{Exchange::Stages, steps.back().level, {}, 0};
  double share = 1;
  for (const LevelStep &step : steps) {
    cost.latency += step.level->latency;
    cost.secondsPerByte += share * (step.degree - 1) / step.degree / step.level->bandwidth.value;
    share /= step.degree;
  }
  return cost;
}

/// Levels of more than eight devices are several steps of at most four, as far as their degrees have such divisors.
std::vector<LevelStep> divided(std::span<const LevelStep> steps) {
  // A rank has memory, words and perhaps a communicator for each peer; NCCL's way has 13 of these (transport/nccl).
  constexpr uint32_t kAlone = 8, kMost = 4;
  std::vector<LevelStep> all;
  for (const LevelStep &step : steps) {
    uint32_t left = step.degree;
    while (left > 1) {
      uint32_t factor = step.degree <= kAlone ? left : kMost;
      while (left % factor != 0)
        --factor;
      if (factor == 1) // A prime, or a product of primes that are too large.
        factor = left;
      all.push_back({step.level, factor});
      left /= factor;
    }
  }
  return all;
}

/// Nothing where a sum over `devices` is one of a single stage.
std::vector<LevelStep> sumSteps(std::span<const uint32_t> devices, const Machine &machine) {
  if (machine.sharesMemory() ||
      std::adjacent_find(devices.begin(), devices.end(), std::greater_equal<>()) != devices.end())
    return {};
  auto levels = stepsOf({devices.begin(), devices.end()}, machine);
  std::vector<LevelStep> steps = levels ? divided(*levels) : std::vector<LevelStep>();
  return steps.size() > 1 ? steps : std::vector<LevelStep>();
}

CommunicationCost twice(CommunicationCost half) {
  half.latency *= 2;
  half.secondsPerByte *= 2;
  return half;
}

} // namespace

std::optional<uint32_t> linkPeriod(const Machine &machine) {
  if (machine.links.empty() || !machine.kindOf.empty())
    return std::nullopt;
  return machine.links.size() < 2 ? 1 : machine.links[machine.links.size() - 2].spans;
}

CommunicationCost collectiveCost(Collective collective, std::span<const uint32_t> devices, const Machine &machine) {
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
  if (numbers.size() < 2) // All on one device.
    return transferCost(machine, numbers.front(), numbers.front());
  CommunicationCost half = direct(machine, numbers);
  if (collective == Collective::AllReduce)
    return twice(half);
  half.secondsPerByte *= static_cast<double>(numbers.size());
  return half;
}

std::vector<uint32_t> sumDegrees(std::span<const uint32_t> devices, const Machine &machine) {
  std::vector<uint32_t> degrees;
  for (const LevelStep &step : sumSteps(devices, machine))
    degrees.push_back(step.degree);
  if (degrees.empty() && devices.size() > 1)
    degrees.push_back(static_cast<uint32_t>(devices.size()));
  return degrees;
}

CommunicationCost reductionCost(std::span<const uint32_t> devices, const Machine &machine) {
  if (devices.size() < 2)
    return {};
  if (std::vector<LevelStep> steps = sumSteps(devices, machine); !steps.empty())
    return twice(inStages(steps));
  if (!machine.sharesMemory())
    return collectiveCost(Collective::AllReduce, devices, machine);
  double moved = 2 + 1 + 1.0 / static_cast<double>(devices.size()) + 2;
  return {Exchange::SharedMemory, nullptr, {}, moved / slowestStream(machine, devices).value};
}

Seconds reductionSeconds(uint64_t gradientBytes, std::span<const uint32_t> devices, const Machine &machine) {
  return reductionCost(devices, machine).of(Bytes(static_cast<double>(gradientBytes)));
}

} // namespace maestro::cost_models
