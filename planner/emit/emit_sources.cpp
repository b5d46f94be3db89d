// Where predicted numbers come from, as decisions whose subjects begin with "machine." and "cost.": what was planned for, each
// program's time by kernel, each edge's by link, each update's by algorithm.
#include "planner/emit/emitter.h"

#include "cost_models/collectives.h"
#include "cost_models/operator_time.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace maestro::planner {

namespace fb = plan::fb;
using cost_models::Provenance;

namespace {

std::string duration(double seconds) {
  return seconds >= 1 ? fmt::format("{:.3g} s", seconds) : seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3)
                                                                           : fmt::format("{:.3g} us", seconds * 1e6);
}

std::string sourcesOf(const ProgramCost &cost) {
  std::vector<std::string> sources;
  const std::pair<bool, Provenance> all[] = {{cost.measured, Provenance::Measured}, {cost.scaled, Provenance::Scaled},
                                             {cost.builtIn, Provenance::BuiltIn}};
  for (const auto &[used, provenance] : all)
    if (used)
      sources.push_back(sourceOf(*cost.device, provenance));
  return fmt::format("{}", fmt::join(sources, "; "));
}

/// "at the bounds: matmul 9.8 ms, attention 1.2 ms, 7 others 310 us, calls 620 us, ring over nvlink …; built in: …"
std::string breakdown(const ProgramCost &cost) {
  constexpr size_t kMostKernels = 4;
  std::vector<std::pair<double, std::string>> kernels;
  for (const auto &[kernel, seconds] : cost.kernelSeconds)
    kernels.emplace_back(seconds, kernel);
  std::sort(kernels.begin(), kernels.end(), std::greater<>());
  std::string text = "at the bounds: ";
  double others = 0;
  for (size_t i = 0; i < kernels.size(); ++i)
    if (i < kMostKernels)
      text += fmt::format("{} {}, ", kernels[i].second, duration(kernels[i].first));
    else
      others += kernels[i].first;
  if (kernels.size() > kMostKernels)
    text += fmt::format("{} others {}, ", kernels.size() - kMostKernels, duration(others));
  text += "calls' own " + duration(cost.callSeconds);
  if (!cost.collective.empty())
    text += fmt::format(", collectives {} (the last: {})", duration(cost.collectiveSeconds), cost.collective);
  return text + "; " + sourcesOf(cost);
}

} // namespace

void Emitter::addSource(std::string subject, std::string value, std::string source) {
  auto decision = std::make_unique<fb::DecisionT>();
  decision->subject = std::move(subject);
  decision->choice = std::move(value);
  decision->reason = std::move(source);
  decision->is_default = true;
  plan.decisions.push_back(std::move(decision));
}

void Emitter::addSources() {
  addMachineSources();
  for (size_t s = 0; s < stages.size(); ++s)
    addStageSources(s);
  for (size_t e = 0; e < plan.edges.size(); ++e)
    addEdgeSource(e);
}

void Emitter::addMachineSources() {
  const cost_models::Machine &machine = input.machine;
  for (size_t kind = 0; kind < machine.kinds.size(); ++kind) {
    const cost_models::DeviceModel &device = machine.kinds[kind];
    auto count = machine.kindOf.empty() ? machine.devices : std::count(machine.kindOf.begin(), machine.kindOf.end(), kind);
    addSource(fmt::format("machine.device.{}", kind), fmt::format("{} x {}", count, device.name),
              fmt::format("{:.1f} GB for a plan, {:.1f} kept for context and libraries; {}", static_cast<double>(device.memoryBytes) * 1e-9,
                          static_cast<double>(device.reserveBytes) * 1e-9, device.source));
  }
  for (const cost_models::LinkLevel &level : machine.links)
    addSource("machine.link." + level.name, fmt::format("{:.4g} GB/s, {:.3g} us", level.bandwidth.value * 1e-9, level.latency.value * 1e6),
              fmt::format("a device and direction, among {} devices; from the cluster's description", level.spans));
}

void Emitter::addStageSources(size_t index) {
  const std::string &name = plan.executables[index]->name;
  const std::vector<ProgramCost> &costs = emitted.reports[index].costs;
  bool trains = std::any_of(costs.begin(), costs.end(), [](const ProgramCost &cost) { return cost.kind == fb::ProgramKind::Forward; });
  for (const ProgramCost &cost : costs)
    if (cost.kind != fb::ProgramKind::Count && (cost.kind != fb::ProgramKind::Evaluate || !trains))
      addSource(fmt::format("cost.{}.{}", name, cost.kind == fb::ProgramKind::Backward ? "backward" : "forward"), duration(cost.seconds),
                breakdown(cost));
  uint64_t gradients = 0;
  for (const auto &region : plan.executables[index]->regions)
    gradients += region->kind == fb::RegionKind::Gradients ? region->bytes : 0;
  if (stages[index].layout->replicas() < 2 || gradients == 0)
    return;
  cost_models::Bytes bytes(static_cast<double>(gradients));
  cost_models::CommunicationCost sum = reductionCost(bytes, replicaDevices(stages[index]), input.machine);
  addSource(fmt::format("cost.{}.reduction", name), duration(sum.of(bytes).value),
            fmt::format("{:.3g} GB of gradients over {} replicas, {}", bytes.value * 1e-9, stages[index].layout->replicas(), describe(sum)));
}

void Emitter::addEdgeSource(size_t index) {
  const fb::EdgeT &edge = *plan.edges[index];
  auto stageOf = [&](uint32_t section, uint32_t number) -> const Stage & {
    return *std::find_if(stages.begin(), stages.end(), [&](const Stage &s) { return s.section == section && stageNumber(s) == number; });
  };
  const Stage &producer = stageOf(edge.producer, edge.producer_stage), &consumer = stageOf(edge.consumer, edge.consumer_stage);
  std::map<std::string, int64_t> atBounds = bounds(*producer.layout);
  double bytes = 0;
  for (const cost_models::BytesTerm &term : emitted.edgeBytes[index]) {
    double value = term.bytes;
    for (uint32_t symbol : term.dims)
      value *= static_cast<double>(atBounds.at(plan.symbols[symbol]->name));
    bytes += value;
  }
  cost_models::CommunicationCost time = transferCost(producer, consumer);
  addSource(fmt::format("cost.{}.transfer", edge.name), duration(time.of(cost_models::Bytes(bytes)).value),
            fmt::format("at the bounds: {:.3g} MB, {}", bytes * 1e-6, describe(time)));
}

} // namespace maestro::planner
