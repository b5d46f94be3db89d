#include "planner/search/option_bounds.h"

#include "cost_models/collectives.h"
#include "cost_models/in_flight.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

namespace maestro::planner {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Whether each stage has as many micro-batches in flight more than the one after it, so that what the last one holds
/// longer all do.
bool isChain(const CutFacts &facts) {
  size_t stages = facts.slots.size();
  for (size_t stage = 0; stage < stages; ++stage)
    if (facts.slots[stage] != 1 + cost_models::kOwnSlots * (stages - 1 - stage))
      return false;
  return true;
}

/// Bytes a second of the kind of device that moves most.
double fastestStream(const cost_models::Machine &machine) {
  double most = 0;
  for (const cost_models::DeviceModel &kind : machine.kinds)
    most = std::max(most, kind.rates.stream.value);
  return most;
}

} // namespace

double leastUpdateSeconds(const cost_models::Machine &machine, double bytes) {
  double least = std::numeric_limits<double>::infinity();
  for (const cost_models::DeviceModel &kind : machine.kinds)
    least = std::min(least, bytes / kind.rates.stream.value * kind.rates.update);
  return least;
}

double leastReductionSeconds(const cost_models::Machine &machine, double bytes, double replicas) {
  if (replicas < 2)
    return 0;
  if (machine.links.empty())
    return 5 * bytes / fastestStream(machine);
  double seconds = 0, inside = 1;
  for (const cost_models::LinkLevel &level : machine.links) {
    double here = std::min(std::ceil(replicas / inside), static_cast<double>(level.spans) / inside);
    if (here > 1)
      seconds = std::max(seconds, 2 * (here - 1) / here * bytes / inside / level.bandwidth.value);
    inside = level.spans;
    if (replicas <= inside)
      break;
  }
  return seconds;
}

OptionBounds::OptionBounds(const SearchProblem &problem, const CutTable &cuts, const WorkTable &work)
    : problem(problem), cuts(cuts), work(work) {
  for (const cost_models::DeviceModel &kind : problem.machine.kinds)
    mostMemory = std::max(mostMemory, kind.memoryBytes);
}

std::vector<BoundedOption> OptionBounds::options(uint32_t section, double seconds) {
  const SearchPins &pins = problem.pins[section];
  std::vector<BoundedOption> list;
  for (uint32_t cut = 0; cut < cuts.of(section).size(); ++cut) {
    auto stages = static_cast<uint32_t>(cuts.of(section)[cut].cut.stages());
    uint32_t first = pins.dataParallel.value_or(1),
             last = pins.dataParallel.value_or(std::max(1u, problem.machine.devices / stages));
    for (uint32_t m = 0; m < problem.model.microBatches.size(); ++m) {
      if (pins.microBatch.value_or(m) != m)
        continue;
      const std::vector<double> &own = cuts.of(section)[cut].work[m];
      double busiest = *std::max_element(own.begin(), own.end());
      for (uint32_t replicas = std::max(first, std::min(last, static_cast<uint32_t>(std::min(busiest / seconds, 1e9))));
           replicas <= last; ++replicas) {
        BoundedOption option = make(section, cut, m, replicas);
        bool fits = option.tasks + std::min(option.update[0], option.update[1]) <= seconds;
        for (size_t stage = 0; stage < stages && fits; ++stage)
          fits = bytes(section, option, stage, 0) <= mostMemory;
        if (fits)
          list.push_back(option);
      }
    }
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const BoundedOption &a, const BoundedOption &b) { return a.devices < b.devices; });
  return list;
}

/// A stage begins with a sample that came through those before it, and in a section that trains its last one goes back
/// through them.
BoundedOption OptionBounds::make(uint32_t section, uint32_t cut, uint32_t microBatch, uint32_t replicas) {
  const CutFacts &own = cuts.of(section)[cut];
  const std::vector<double> &stages = own.work[microBatch];
  bool trains = problem.model.sections[section].trains;
  BoundedOption option{cut, microBatch, replicas, static_cast<uint32_t>(stages.size())};
  option.devices = static_cast<uint32_t>(std::min<size_t>(replicas * stages.size(), problem.machine.devices));
  option.work = std::accumulate(stages.begin(), stages.end(), 0.0);
  for (size_t i = 0; i < stages.size(); ++i) {
    double around =
        trains && i > 0 ? work.oneSample(section, own.cut.recompute, microBatch, 0, own.cut.firstAtoms[i - 1]) : 0;
    option.tasks = std::max(option.tasks, around + stages[i] / replicas);
  }
  for (bool byStage : {false, true})
    if (trains) {
      const Updates &behind = updates(section, cut, replicas, byStage);
      option.update[byStage] = behind.longest;
      option.updates[byStage] = behind.all;
    }
  return option;
}

void OptionBounds::Updates::add(double seconds, uint32_t replicas) {
  longest = std::max(longest, seconds);
  all += seconds * replicas;
  byStage.push_back(seconds);
}

/// Wherever the devices are.
OptionBounds::Updates OptionBounds::leastUpdates(uint32_t section, uint32_t cut, uint32_t replicas) const {
  Updates result;
  for (const cost_models::StageModel &stage : cuts.of(section)[cut].stages) {
    double own = leastUpdateSeconds(problem.machine, static_cast<double>(stage.updateBytes)) +
                 leastReductionSeconds(problem.machine, static_cast<double>(stage.gradientBytes), replicas);
    result.add(own, replicas);
  }
  return result;
}

/// On consecutive devices from `first` on.
OptionBounds::Updates OptionBounds::updatesFrom(uint32_t section, uint32_t cut, uint32_t replicas, bool byStage,
                                                uint32_t first) const {
  const std::vector<cost_models::StageModel> &stages = cuts.of(section)[cut].stages;
  auto count = static_cast<uint32_t>(stages.size());
  std::vector<uint32_t> column(replicas);
  Updates result;
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t replica = 0; replica < replicas; ++replica)
      column[replica] = first + (byStage ? i * replicas + replica : replica * count + i);
    double own = cost_models::updateSeconds(stages[i], column, problem.machine).value +
                 cost_models::reductionSeconds(stages[i].gradientBytes, column, problem.machine).value;
    result.add(own, replicas);
  }
  return result;
}

/// A group's devices are consecutive. Where they begin matters by the levels of links within the outermost one; of
/// several kinds of devices, and of more stages than devices, it is not asked.
const OptionBounds::Updates &OptionBounds::updates(uint32_t section, uint32_t cut, uint32_t replicas, bool byStage) {
  auto [found, isNew] = known.try_emplace({section, cut, replicas, byStage});
  if (!isNew)
    return found->second;
  std::optional<uint32_t> period = cost_models::linkPeriod(problem.machine);
  uint64_t devices = uint64_t{replicas} * cuts.of(section)[cut].cut.stages();
  found->second = leastUpdates(section, cut, replicas);
  if (replicas < 2 || problem.machine.links.size() < 2 || !period || devices > problem.machine.devices)
    return found->second;
  auto firsts = static_cast<uint32_t>(std::min<uint64_t>(*period, problem.machine.devices - devices + 1));
  Updates placed{kNever, kNever, std::vector<double>(found->second.byStage.size(), kNever)};
  for (uint32_t first = 0; first < firsts; ++first) {
    Updates own = updatesFrom(section, cut, replicas, byStage, first);
    placed.longest = std::min(placed.longest, own.longest);
    placed.all = std::min(placed.all, own.all);
    for (size_t stage = 0; stage < own.byStage.size(); ++stage)
      placed.byStage[stage] = std::min(placed.byStage[stage], own.byStage[stage]);
  }
  Updates &most = found->second;
  most.longest = std::max(most.longest, placed.longest);
  most.all = std::max(most.all, placed.all);
  for (size_t stage = 0; stage < most.byStage.size(); ++stage)
    most.byStage[stage] = std::max(most.byStage[stage], placed.byStage[stage]);
  return most;
}

uint64_t OptionBounds::bytes(uint32_t section, const BoundedOption &option, size_t stage, uint64_t held) const {
  const CutFacts &own = facts(section, option);
  uint64_t each =
      static_cast<uint64_t>(problem.model.sections[section].capacities[option.microBatch].samples) * option.replicas;
  uint64_t beyond = held > 0 && isChain(own) ? (held + each - 1) / each + cost_models::kOwnSlots - 1 : 0;
  uint64_t all = stageBytes(problem, section, own, option.microBatch, stage, beyond);
  return option.replicas > 1 || own.stages[stage].gradientBytes == 0 ? all : all - problem.machine.stagingBytes;
}

double OptionBounds::alikeWork(uint32_t section, const BoundedOption &option, size_t stage) const {
  const SectionCut &cut = facts(section, option).cut;
  size_t atoms = problem.model.sections[section].classOf.size();
  return std::min(work.alike(section, cut.recompute, option.microBatch, cut.firstAtom(stage, atoms),
                             cut.firstAtom(stage + 1, atoms)),
                  stageWork(section, option, stage));
}

uint64_t OptionBounds::processBytes(uint32_t section, const BoundedOption &option, size_t stage) const {
  return std::min(problem.machine.processBytes, facts(section, option).stages[stage].at[option.microBatch].hostBytes);
}

/// Of tensors that leave from the producer's last atom: all of its stages then hold what waits for their gradients.
uint64_t OptionBounds::held(uint32_t producer, uint32_t section, const BoundedOption &option) const {
  const cost_models::AtomicSection &from = problem.model.sections[producer], &to = problem.model.sections[section];
  const CutFacts &own = facts(section, option);
  const cost_models::StageFlow before{producer, 1, 1, 0, from.presence},
      after{section, to.capacities[option.microBatch].samples, option.replicas, 0, to.presence};
  int64_t most = 0;
  for (const cost_models::AtomTensor &tensor : problem.model.tensors) {
    if (tensor.section != producer || !tensor.gradient || !to.trains || tensor.atom + 1 != from.classOf.size())
      continue;
    for (auto [consumer, atom] : tensor.consumers)
      if (consumer == section) {
        uint32_t holds = own.slots[own.cut.stageOf(atom)] + cost_models::kWaitingForSection / 2;
        most = std::max(most, cost_models::samplesFrom(before, after, holds, problem.model.stepSamples));
      }
  }
  return static_cast<uint64_t>(most);
}

} // namespace maestro::planner
