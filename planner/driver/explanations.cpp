#include "planner/driver/explanations.h"

#include "planner/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace maestro::planner {
namespace {

namespace fb = plan::fb;

/// What a search for a what-if may spend.
constexpr uint32_t kSimulations = 8, kNodes = 2'000;
constexpr uint64_t kTasks = 60'000;
constexpr uint64_t kMoreMemory = 10'000'000'000;
/// A fuller device may be what keeps the plan from another layout.
constexpr double kFull = 0.5;

void addCandidate(fb::PlanT &plan, fb::CandidateKind kind, std::string subject, std::string choice, double seconds, std::string reason,
                  bool inFileOrder = false) {
  auto candidate = std::make_unique<fb::CandidateT>();
  candidate->kind = kind;
  candidate->subject = std::move(subject);
  candidate->choice = std::move(choice);
  candidate->step_seconds = seconds;
  candidate->reason = std::move(reason);
  candidate->in_file_order = inFileOrder;
  plan.candidates.push_back(std::move(candidate));
}

void addLimit(fb::PlanT &plan, fb::LimitKind kind, std::string place, double used, double limit, std::string reason) {
  auto entry = std::make_unique<fb::LimitT>();
  entry->kind = kind;
  entry->place = std::move(place);
  entry->used = used;
  entry->limit = limit;
  entry->reason = std::move(reason);
  plan.limits.push_back(std::move(entry));
}

void addQuantity(fb::PlanT &plan, std::string name, double value, std::string unit, std::string source) {
  for (const auto &own : plan.quantities)
    if (own->name == name)
      return;
  auto quantity = std::make_unique<fb::QuantityT>();
  quantity->name = std::move(name);
  quantity->value = value;
  quantity->unit = std::move(unit);
  quantity->source = std::move(source);
  plan.quantities.push_back(std::move(quantity));
}

/// The one decision in which two options of a section differ, and its value in the second; nothing where they differ in more.
std::optional<std::pair<std::string, std::string>> difference(const AtomicModel &model, const LayoutOption &a, const LayoutOption &b) {
  bool cut = a.cut.firstAtoms != b.cut.firstAtoms, recompute = a.cut.recompute != b.cut.recompute, size = a.microBatch != b.microBatch;
  bool devices = a.devices != b.devices;
  if (cut + recompute + size + (devices && !cut) != 1)
    return std::nullopt;
  if (cut)
    return std::pair<std::string, std::string>("stages", fmt::format("{}, {} replicas", b.cut.stages(), b.devices.size()));
  if (recompute)
    return std::pair<std::string, std::string>("recompute", b.cut.recompute ? "full" : "none");
  if (size)
    return std::pair<std::string, std::string>("micro_batch", fmt::format("{} samples", model.microBatches[b.microBatch]));
  return std::pair<std::string, std::string>("devices", fmt::format("{} replicas", b.devices.size()));
}

/// For each decision the best layout that was simulated and differs in nothing else.
void addAlternatives(const SearchProblem &problem, const SearchResult &result, const RankedLayout &chosen, fb::PlanT &plan) {
  std::map<std::string, bool> seen;
  for (const RankedLayout &other : result.simulated) {
    std::optional<size_t> changed;
    size_t changes = 0;
    for (size_t s = 0; s < other.layout.size(); ++s)
      if (other.layout[s] != chosen.layout[s]) {
        changed = s;
        ++changes;
      }
    if (changes != 1)
      continue;
    auto decision = difference(problem.model, chosen.layout[*changed], other.layout[*changed]);
    if (!decision)
      continue;
    std::string subject = problem.model.sections[*changed].name + "." + decision->first;
    if (seen[subject])
      continue;
    seen[subject] = true;
    addCandidate(plan, fb::CandidateKind::Alternative, subject, decision->second, other.simulation.stepSeconds,
                 "the best other value that was simulated, everything else as it is");
  }
}

void addLimits(const SearchProblem &problem, const RankedLayout &chosen, const cost_models::Simulation &own, fb::PlanT &plan) {
  auto sectionsOn = [&](uint32_t device) {
    std::string text;
    for (size_t s = 0; s < chosen.layout.size(); ++s)
      for (const std::vector<uint32_t> &replica : chosen.layout[s].devices)
        if (std::find(replica.begin(), replica.end(), device) != replica.end()) {
          text += (text.empty() ? "" : ", ") + problem.model.sections[s].name;
          break;
        }
    return text;
  };
  auto busiest = static_cast<uint32_t>(std::max_element(own.deviceBusySeconds.begin(), own.deviceBusySeconds.end()) - own.deviceBusySeconds.begin());
  addLimit(plan, fb::LimitKind::Time, fmt::format("device {}", busiest), own.deviceBusySeconds[busiest], own.stepSeconds,
           "tasks and updates of " + sectionsOn(busiest));
  auto fullest = static_cast<uint32_t>(std::max_element(own.deviceBytes.begin(), own.deviceBytes.end()) - own.deviceBytes.begin());
  addLimit(plan, fb::LimitKind::Memory, fmt::format("device {}", fullest), static_cast<double>(own.deviceBytes[fullest]),
           static_cast<double>(problem.machine.memoryBytes(fullest)), "parameters and micro-batches in flight of " + sectionsOn(fullest));
  addLimit(plan, fb::LimitKind::Time, "gradients and updates", own.updateSeconds, own.stepSeconds,
           "sums over replicas and the optimizer, behind the last gradient");
}

} // namespace

std::vector<WhatIf> whatIf(const SearchProblem &problem, const SearchResult &result) {
  std::vector<WhatIf> list;
  double now = result.simulation.stepSeconds;
  auto search = [&](SearchProblem changed, std::string subject, std::string choice) {
    changed.budget.simulations = kSimulations;
    changed.budget.tasks = std::min(changed.budget.tasks, kTasks);
    changed.budget.nodes = std::min(changed.budget.nodes, kNodes);
    changed.topK = 1;
    auto found = searchLayouts(changed);
    list.push_back({std::move(subject), std::move(choice), found.isOk() ? std::min(now, found->simulation.stepSeconds) : now});
  };
  SearchProblem more = problem;
  uint32_t added = problem.machine.links.empty() ? 1 : problem.machine.links.front().spans;
  more.machine.devices += added;
  if (more.machine.kindOf.empty()) {
    if (more.machine.links.size() < 2 || more.machine.devices % more.machine.links[more.machine.links.size() - 2].spans == 0) {
      if (!more.machine.links.empty())
        more.machine.links.back().spans = more.machine.devices;
      search(std::move(more), "devices", fmt::format("{} more", added));
    }
  }
  double fullest = 0; // Where memory does not bind, more of it brings nothing.
  for (uint32_t device = 0; device < result.simulation.deviceBytes.size(); ++device)
    fullest = std::max(fullest, static_cast<double>(result.simulation.deviceBytes[device]) /
                                    static_cast<double>(problem.machine.memoryBytes(device)));
  SearchProblem larger = problem;
  for (cost_models::DeviceModel &kind : larger.machine.kinds)
    kind.memoryBytes += std::min(kMoreMemory, UINT64_MAX - kind.memoryBytes);
  if (fullest > kFull)
    search(std::move(larger), "memory of each device", "10 GB more");
  else
    list.push_back({"memory of each device", "10 GB more", now});
  CompoundModel model = modelOf(problem, result.layout);
  for (size_t level = 0; level < problem.machine.links.size(); ++level) {
    cost_models::Machine machine = problem.machine;
    machine.links[level].bandwidth *= 2;
    cost_models::Simulator simulator(problem.steps, problem.budget.mostTasks);
    auto found = simulator.run(model, machine, choicesOf(result.layout), wavefront::Order::Wavefront);
    list.push_back({"bandwidth of " + machine.links[level].name, "twice", found.isOk() ? std::min(now, found->stepSeconds) : now});
  }
  return list;
}

std::optional<uint32_t> smallestCluster(const SearchProblem &problem) {
  for (const SearchPins &pins : problem.pins)
    if (pins.devices)
      return std::nullopt;
  if (!problem.machine.kindOf.empty())
    return std::nullopt;
  SearchProblem larger = problem;
  larger.budget = {1, kTasks, std::min(problem.budget.mostTasks, kTasks), kNodes};
  for (uint32_t factor = 2; factor <= 64; factor *= 2) {
    larger.machine.devices = problem.machine.devices * factor;
    if (!larger.machine.links.empty())
      larger.machine.links.back().spans = larger.machine.devices;
    if (searchLayouts(larger).isOk())
      return larger.machine.devices;
  }
  return std::nullopt;
}

void explain(const SearchProblem &problem, const SearchResult &result, const std::vector<WhatIf> &whatIfs, size_t rank,
             const cost_models::Simulation &own, fb::PlanT &plan) {
  const RankedLayout &chosen = result.ranked[rank];
  // Compared by the same prediction: what atoms add up to differs a little from the emitted plan's own costs.
  addCandidate(plan, fb::CandidateKind::Layout, rank == 0 ? result.winner : "search", describe(problem.model, chosen.layout),
               own.stepSeconds, "this plan");
  for (const ComparedLayout &row : result.compared)
    if (row.name != result.winner && row.name != "search")
      addCandidate(plan, fb::CandidateKind::Layout, row.name, row.what, row.possible ? row.simulation.stepSeconds : 0,
                   row.possible ? "the best within its restriction" : row.what, row.inFileOrder);
  addAlternatives(problem, result, chosen, plan);
  for (const WhatIf &entry : whatIfs)
    addCandidate(plan, fb::CandidateKind::WhatIf, entry.subject, entry.choice, entry.stepSeconds,
                 entry.stepSeconds < result.simulation.stepSeconds ? "estimated anew" : "nothing would be gained");
  addLimits(problem, chosen, own, plan);
  addQuantity(plan, "search.simulations", result.simulations, "", "counted");
  addQuantity(plan, "search.lower_bound_seconds", result.lowerBoundSeconds, "s", "proven over the layouts that were looked at");
  addQuantity(plan, "search.gap", chosen.simulation.stepSeconds / std::max(result.lowerBoundSeconds, 1e-12) - 1, "", "the step over its lower bound");
  addQuantity(plan, "step.p10_seconds", own.leastSeconds, "s", "simulated");
  addQuantity(plan, "step.p90_seconds", own.mostSeconds, "s", "simulated");
  for (size_t s = 0; s < own.sections.size(); ++s) {
    const std::string &name = problem.model.sections[s].name;
    addQuantity(plan, name + ".busy_seconds", own.sections[s].busySeconds, "s", "simulated, a device's mean a step");
    addQuantity(plan, name + ".idle_seconds", own.sections[s].idleSeconds, "s", "simulated, a device's mean a step");
    addQuantity(plan, name + ".wait_seconds", own.sections[s].waitSeconds, "s", "simulated: idle time that transfers cause");
  }
}

} // namespace maestro::planner
