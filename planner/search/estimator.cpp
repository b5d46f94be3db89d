#include "planner/search/estimator.h"

#include "cost_models/collectives.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

namespace maestro::planner {
namespace {

/// Options of a section for one number of devices.
constexpr size_t kMaxOptions = 16;
/// Groups of more devices are estimated by their busiest stages, not device by device.
constexpr uint32_t kMaxDeviceByDevice = 1024;

uint64_t lowestMemory(const cost_models::Machine &machine) {
  uint64_t least = UINT64_MAX;
  for (const cost_models::DeviceModel &kind : machine.kinds)
    least = std::min(least, kind.memoryBytes);
  return least;
}

/// The option before and the ones behind it, evenly: the fastest, the smallest, and some between.
std::vector<PricedOption> thinned(const std::vector<PricedOption> &options) {
  if (options.size() <= kMaxOptions)
    return options;
  std::vector<PricedOption> some;
  for (size_t i = 0; i < kMaxOptions; ++i)
    some.push_back(options[i * (options.size() - 1) / (kMaxOptions - 1)]);
  return some;
}

} // namespace

void Estimate::add(const Estimate &other) {
  busy += other.busy;
  fill = std::max(fill, other.fill);
  update += other.update;
  criticalPath = std::max(criticalPath, other.criticalPath);
}

Estimator::Estimator(const SearchProblem &problem, const Cuts &cuts)
    : problem(problem), cuts(cuts), deviceBytes(lowestMemory(problem.machine)) {}

// ---- one section ----------------------------------------------------------------------------------------------------

/// The end of a step: of the stage whose replicas take longest.
double Estimator::updateSeconds(uint32_t section, const CutFacts &facts, uint32_t replicas, bool byStage) const {
  if (!problem.model.sections[section].trains)
    return 0;
  auto [found, isNew] = updates.try_emplace({&facts, replicas, byStage}, 0);
  if (!isNew)
    return found->second;
  auto stages = static_cast<uint32_t>(facts.stages.size());
  std::optional<uint32_t> period =
      uint64_t{replicas} * stages <= problem.machine.devices ? cost_models::linkPeriod(problem.machine) : std::nullopt;
  std::set<std::tuple<uint32_t, uint64_t, uint64_t, uint64_t>> known; // Stages that take as long.
  std::vector<uint32_t> column(replicas);
  for (uint32_t i = 0; i < stages; ++i) {
    const cost_models::StageModel &stage = facts.stages[i];
    uint32_t first = byStage ? i * replicas : 0;
    const cost_models::ParameterBytes &own = stage.parameters;
    if (!known.insert({period ? first % *period : first, own.gradients, own.moved(), own.updateFlops}).second)
      continue;
    for (uint32_t replica = 0; replica < replicas; ++replica)
      column[replica] = std::min(byStage ? first + replica : replica * stages, problem.machine.devices - 1);
    found->second = std::max(found->second, cost_models::stepEndSeconds(stage, column, problem.machine).value);
  }
  return found->second;
}

/// Micro-batches go through the busiest stage one after the other, and the first of them through all others.
Estimate Estimator::estimate(uint32_t section, const CutFacts &facts, uint32_t microBatch, uint32_t replicas,
                             bool byStage) const {
  const CutFacts::Size &size = facts.at[microBatch];
  double rounds = std::ceil(size.microBatches / replicas), fill = size.fill;
  for (uint32_t smaller = 0; smaller < microBatch; ++smaller) // Sizes are limits: pipelines fill with smaller ones.
    fill = std::min(fill, facts.at[smaller].fill);
  return {size.longest / size.microBatches * rounds, fill, updateSeconds(section, facts, replicas, byStage),
          size.criticalPath, size.bytes};
}

uint32_t Estimator::replicas(uint32_t section, uint32_t stages, uint32_t devices) const {
  const SearchPins &pins = problem.pins[section];
  auto most = static_cast<uint32_t>(std::max(1.0, std::ceil(cuts.work().samples(section))));
  uint32_t replicas = pins.dataParallel.value_or(std::min(devices / stages, most));
  if (pins.devices && pins.stages)
    return std::max(replicas, 1u);
  return uint64_t{replicas} * stages <= devices || (pins.devices && stages == 1) ? replicas : 0;
}

/// Options that nothing beats in both time and bytes, fastest first.
std::vector<PricedOption> Estimator::paretoOptions(uint32_t section, uint32_t devices,
                                                   const OptionLimits &limits) const {
  const SearchPins &pins = problem.pins[section];
  double memory = limits.memoryShare * static_cast<double>(deviceBytes);
  std::vector<PricedOption> all, tight; // Those that fit as usual, and those that do where little waits elsewhere.
  for (const RecomputeChoice &recompute : recomputeChoices(problem, section, kRecomputeParts))
    for (uint32_t stages : cuts.stageCounts(section)) {
      uint32_t count = replicas(section, stages, devices);
      bool isHeld = limits.held && limits.held->second != stages;
      if (count == 0 || ((stages > limits.maxStages || isHeld) && !pins.stages))
        continue;
      const CutFacts &facts = cuts.of(section, recompute, stages);
      for (uint32_t m = 0; m < facts.at.size(); ++m) {
        if (pins.microBatch ? *pins.microBatch != m : isRepeatedSize(problem.model, section, m))
          continue;
        PricedOption option{&facts, m, count, estimate(section, facts, m, count, false)};
        Estimate byStage = estimate(section, facts, m, count, true);
        option.estimate.update = std::min(option.estimate.update, byStage.update);
        if (static_cast<double>(option.estimate.bytes) <= memory)
          all.push_back(option);
        option.estimate.bytes = facts.at[m].leastBytes;
        if (static_cast<double>(option.estimate.bytes) <= memory)
          tight.push_back(option);
      }
    }
  if (all.empty()) // Pins leave only what fits beside little.
    all = std::move(tight);
  std::stable_sort(all.begin(), all.end(), [](const PricedOption &a, const PricedOption &b) {
    return a.estimate.seconds() < b.estimate.seconds();
  });
  std::vector<PricedOption> kept;
  for (const PricedOption &option : all)
    if (kept.empty() || option.estimate.bytes < kept.back().estimate.bytes)
      kept.push_back(option);
  return thinned(kept);
}

const std::vector<PricedOption> &Estimator::tabled(uint32_t section, uint32_t devices,
                                                   const OptionLimits &limits) const {
  OptionLimits own = limits;
  if (own.held && own.held->first != section)
    own.held.reset();
  auto [found, isNew] = table.try_emplace({section, devices, own});
  if (isNew)
    found->second = paretoOptions(section, devices, own);
  return found->second;
}

uint64_t Estimator::leastBytes(uint32_t section) const {
  uint64_t least = UINT64_MAX;
  for (const RecomputeChoice &recompute : recomputeChoices(problem, section, kRecomputeParts))
    for (uint32_t stages : cuts.stageCounts(section))
      for (const CutFacts::Size &size : cuts.of(section, recompute, stages).at)
        least = std::min(least, size.leastBytes);
  return least;
}

// ---- sections that share devices
// --------------------------------------------------------------------------------------

std::vector<PricedOption> Estimator::fastestTogether(const std::vector<uint32_t> &sections, uint32_t devices,
                                                     const OptionLimits &limits) const {
  std::vector<const std::vector<PricedOption> *> lists;
  for (uint32_t section : sections)
    if (lists.push_back(&tabled(section, devices, limits)); lists.back()->empty())
      return {};
  std::vector<size_t> at(lists.size(), 0);
  auto bytesOf = [&](size_t i) { // What sections of a process share counts once.
    uint64_t bytes = (*lists[i])[at[i]].estimate.bytes;
    return static_cast<double>(bytes - std::min(problem.machine.processBytes * (i > 0), bytes));
  };
  auto doFit = [&] {
    double bytes = 0;
    for (size_t i = 0; i < lists.size(); ++i)
      bytes += bytesOf(i);
    return bytes <= limits.memoryShare * static_cast<double>(deviceBytes);
  };
  while (!doFit()) {
    size_t best = lists.size();
    double least = kNever;
    for (size_t i = 0; i < lists.size(); ++i) {
      if (at[i] + 1 >= lists[i]->size())
        continue;
      const Estimate &now = (*lists[i])[at[i]].estimate, &then = (*lists[i])[at[i] + 1].estimate;
      double price = (then.seconds() - now.seconds()) / static_cast<double>(now.bytes - then.bytes);
      if (price < least) {
        least = price;
        best = i;
      }
    }
    if (best == lists.size())
      return {};
    ++at[best];
  }
  std::vector<PricedOption> chosen;
  for (size_t i = 0; i < lists.size(); ++i)
    chosen.push_back((*lists[i])[at[i]]);
  return chosen;
}

SectionOption Estimator::optionOf(uint32_t section, const PricedOption &priced) const {
  const SearchPins &pins = problem.pins[section];
  SectionCut cut = priced.facts->cut;
  if (problem.model.sections[section].trains)
    cut.splitStages = std::min<uint32_t>(pins.splitStages.value_or(0), static_cast<uint32_t>(cut.stages()));
  return {std::move(cut), priced.microBatch, priced.replicas, pins.moreInFlight.value_or(0)};
}

double Estimator::secondsTogether(const std::vector<uint32_t> &sections, uint32_t devices,
                                  const OptionLimits &limits) const {
  std::vector<PricedOption> chosen = fastestTogether(sections, devices, limits);
  Estimate all;
  for (const PricedOption &option : chosen)
    all.add(option.estimate);
  return chosen.empty() ? kNever : all.seconds();
}

// ---- a layout
// -----------------------------------------------------------------------------------------------------------

const CutFacts &Estimator::factsOf(uint32_t section, const SectionOption &option) const {
  return cuts.of(section, option.cut.recompute, option.stages());
}

/// Seconds of the device of a group that has most to do; of large groups the busiest stages together.
double Estimator::busiestDevice(const Layout &layout, const DeviceGroup &group) const {
  std::vector<double> busy(group.devices <= kMaxDeviceByDevice ? group.devices : 1, 0);
  for (uint32_t section : group.sections) {
    const SectionOption &option = layout.sections[section];
    const CutFacts::Size &size = factsOf(section, option).at[option.microBatch];
    double share = std::ceil(size.microBatches / option.replicas) / size.microBatches;
    if (busy.size() < group.devices) {
      busy.front() += size.longest * share;
      continue;
    }
    uint32_t stages = option.stages();
    for (uint32_t replica = 0; replica < option.replicas; ++replica)
      for (uint32_t stage = 0; stage < stages; ++stage)
        busy[(group.byStage ? stage * option.replicas + replica : replica * stages + stage) % busy.size()] +=
            size.work[stage] * share;
  }
  return *std::max_element(busy.begin(), busy.end());
}

double Estimator::seconds(const Layout &layout) const {
  std::vector<const CriticalPaths::Times *> paths(layout.sections.size(), nullptr);
  std::vector<double> before(layout.sections.size(), 0); // Until the sections before it have filled.
  std::vector<Estimate> own;
  for (uint32_t s = 0; s < layout.sections.size(); ++s) {
    const SectionOption &option = layout.sections[s];
    bool byStage = layout.groups[layout.groupOf(s)].byStage;
    own.push_back(estimate(s, factsOf(s, option), option.microBatch, option.replicas, byStage));
    own[s].fill += before[s];
    for (uint32_t reader : cuts.gradientsFrom(s))
      before[reader] = std::max(before[reader], own[s].fill);
    if (problem.model.sections[s].trains)
      paths[s] = &cuts.criticalPaths().of(s, option.cut.recompute, option.microBatch);
  }
  double seconds = cuts.criticalPaths().longest(paths);
  for (const DeviceGroup &group : layout.groups) {
    Estimate all;
    for (uint32_t section : group.sections)
      all.add(own[section]);
    all.busy = busiestDevice(layout, group);
    seconds = std::max(seconds, all.seconds());
  }
  return seconds;
}

} // namespace maestro::planner
