// Where predicted numbers come from, as quantities whose names begin with "machine." and "cost.": what was planned for,
// each program's time by kernel, each edge's by link, each reduction's by algorithm.
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
  return seconds >= 1      ? fmt::format("{:.3g} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.3g} ms", seconds * 1e3)
                           : fmt::format("{:.3g} us", seconds * 1e6);
}

std::string sourcesOf(const ProgramCost &cost) {
  std::vector<std::string> sources;
  const std::pair<bool, Provenance> all[] = {
      {cost.measured, Provenance::Measured}, {cost.scaled, Provenance::Scaled}, {cost.builtIn, Provenance::BuiltIn}};
  for (const auto &[used, provenance] : all)
    if (used)
      sources.push_back(sourceOf(*cost.device, provenance));
  return fmt::format("{}", fmt::join(sources, "; "));
}

const char *taskName(fb::ProgramKind kind) {
  return kind == fb::ProgramKind::WeightGradient ? "weight_gradient"
         : kind == fb::ProgramKind::Backward     ? "backward"
                                                 : "forward";
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

void PlanEmitter::addSource(std::string name, double value, std::string unit, std::string source) {
  auto quantity = std::make_unique<fb::QuantityT>();
  quantity->name = std::move(name);
  quantity->value = value;
  quantity->unit = std::move(unit);
  quantity->source = std::move(source);
  plan.quantities.push_back(std::move(quantity));
}

void PlanEmitter::addSources() {
  addMachineSources();
  for (size_t s = 0; s < stages.size(); ++s)
    addStageSources(s);
  for (size_t e = 0; e < plan.edges.size(); ++e)
    addEdgeSource(e);
}

void PlanEmitter::addMachineSources() {
  const cost_models::Machine &machine = input.machine;
  for (size_t kind = 0; kind < machine.kinds.size(); ++kind) {
    const cost_models::DeviceModel &device = machine.kinds[kind];
    auto count =
        machine.kindOf.empty() ? machine.devices : std::count(machine.kindOf.begin(), machine.kindOf.end(), kind);
    addSource(fmt::format("machine.memory.{}", kind), static_cast<double>(device.memoryBytes), "B",
              fmt::format("of each of {} x {}; {}", count, device.name, device.source));
    for (size_t i = 0; i < device.kept.size(); ++i)
      addSource(fmt::format("machine.kept.{}.{}", kind, i), static_cast<double>(device.kept[i].bytes), "B",
                fmt::format("{}, beside what plans may use: {}", device.kept[i].what, device.kept[i].source));
    addSource(fmt::format("machine.arithmetic.{}", kind), device.rates.arithmetic.value, "FLOP/s",
              fmt::format("products in f32, where nothing says more; in bf16 {:.4g}; {}",
                          device.rates.arithmeticBf16.value, device.source));
    addSource(fmt::format("machine.bandwidth.{}", kind), device.rates.stream.value, "B/s",
              "of its memory; " + device.source);
    addSource(fmt::format("machine.call.{}", kind), device.rates.call.value, "s",
              "of every kernel call beside its work; assumed where no profile says");
    if (device.rates.task + device.rates.step > cost_models::Seconds(0)) {
      addSource(fmt::format("machine.task.{}", kind), device.rates.task.value, "s",
                "of every task beside its calls; " + device.source);
      addSource(fmt::format("machine.step.{}", kind), device.rates.step.value, "s",
                "of every step beside its tasks, part of the first section's update on a device; " + device.source);
    }
    if (device.rates.host > cost_models::Seconds(0))
      addSource(fmt::format("machine.host.{}", kind), device.rates.host.value, "s",
                fmt::format("processor time of a job's own threads in a step, which {} devices at work wait for; {}",
                            device.atOnce, device.source));
    if (device.rates.alone < 1)
      addSource(
          fmt::format("machine.alone.{}", kind), device.rates.alone, "",
          fmt::format("a task's time while no other device works, over what programs are costed with, {} at work; {}",
                      device.atOnce, device.source));
    if (device.rates.update != 1)
      addSource(fmt::format("machine.update.{}", kind), device.rates.update, "",
                "norm's and optimizer's time over what the memory's bandwidth says of their bytes; " + device.source);
    if (device.rates.together > 1)
      addSource(fmt::format("machine.together.{}", kind), device.rates.together, "",
                fmt::format("the slowest device's time over the mean one's, {} at work, which wait for each other; {}",
                            device.atOnce, device.source));
  }
  for (size_t l = 0; l < machine.links.size(); ++l) {
    const cost_models::LinkLevel &level = machine.links[l];
    addSource(
        fmt::format("machine.link.{}", l), level.bandwidth.value, "B/s",
        fmt::format("{}: a device and direction, after {:.3g} us, among {} devices; from the cluster's description",
                    level.name, level.latency.value * 1e6, level.spans));
  }
}

void PlanEmitter::addStageSources(size_t index) {
  const std::string &name = plan.executables[index]->name;
  const std::vector<ProgramCost> &costs = emitted.reports[index].costs;
  bool trains = std::any_of(costs.begin(), costs.end(),
                            [](const ProgramCost &cost) { return cost.kind == fb::ProgramKind::Forward; });
  for (const ProgramCost &cost : costs)
    if (cost.kind != fb::ProgramKind::Count && (cost.kind != fb::ProgramKind::Evaluate || !trains))
      addSource(fmt::format("cost.{}.{}", name, taskName(cost.kind)), cost.seconds, "s", breakdown(cost));
  uint64_t gradients = 0;
  for (const auto &region : plan.executables[index]->regions)
    gradients += region->kind == fb::RegionKind::Gradients ? region->bytes : 0;
  if (stages[index].layout->replicas() < 2 || gradients == 0)
    return;
  cost_models::Bytes bytes(static_cast<double>(gradients));
  cost_models::CommunicationCost sum = reductionCost(replicaDevices(stages[index]), input.machine);
  addSource(fmt::format("cost.{}.reduction", name), sum.of(bytes).value, "s",
            fmt::format("{:.3g} GB of gradients over {} replicas, {}", bytes.value * 1e-9,
                        stages[index].layout->replicas(), describe(sum)));
}

void PlanEmitter::addEdgeSource(size_t index) {
  const fb::EdgeT &edge = *plan.edges[index];
  auto stageOf = [&](uint32_t section, uint32_t number) -> const Stage & {
    return *std::find_if(stages.begin(), stages.end(),
                         [&](const Stage &s) { return s.section == section && stageNumber(s) == number; });
  };
  const Stage &producer = stageOf(edge.producer, edge.producer_stage),
              &consumer = stageOf(edge.consumer, edge.consumer_stage);
  const DimSizes &full = producer.limits.full();
  double bytes = 0;
  for (const cost_models::BytesTerm &term : emitted.edgeBytes[index]) {
    double value = term.bytes;
    for (uint32_t symbol : term.dims)
      value *= static_cast<double>(full.at(plan.symbols[symbol]->name));
    bytes += value;
  }
  cost_models::CommunicationCost time = transferCost(producer, consumer);
  addSource(fmt::format("cost.{}.transfer", edge.name), time.of(cost_models::Bytes(bytes)).value, "s",
            fmt::format("at the bounds: {:.3g} MB, {}", bytes * 1e-6, describe(time)));
}

} // namespace maestro::planner
