#include "cost_models/compound.h"

#include "cost_models/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace maestro::cost_models {
namespace {

Status wrongCompound(std::string what) { return Status::invalidInput("compound model: " + what); }

/// Index of each section's first stage.
std::vector<uint32_t> firstStages(const CompoundModel &model) {
  std::vector<uint32_t> first;
  uint32_t next = 0;
  for (const SectionModel &section : model.sections) {
    first.push_back(next);
    next += static_cast<uint32_t>(section.stages.size());
  }
  return first;
}

InFlight inFlight(const CompoundModel &model, const CompoundLayout &layout) {
  std::vector<uint32_t> first = firstStages(model);
  std::vector<StageFlow> stages;
  for (uint32_t s = 0; s < model.sections.size(); ++s)
    stages.insert(stages.end(), model.sections[s].stages.size(),
                  {s, model.sections[s].capacities[layout[s].microBatch].samples,
                   static_cast<uint32_t>(layout[s].devices.size()), layout[s].moreInFlight,
                   model.sections[s].presence});
  std::vector<EdgeFlow> edges;
  for (const EdgeModel &edge : model.edges)
    edges.push_back(
        {first[edge.producer] + edge.producerStage, first[edge.consumer] + edge.consumerStage, edge.gradient});
  return microBatchesInFlight(stages, edges, model.stepSamples);
}

wavefront::Cost constantCost(Seconds seconds) {
  wavefront::Cost cost;
  if (seconds > Seconds(0))
    cost.terms.push_back({static_cast<int64_t>(std::min(seconds.value * 1e12, 1e18)), {}});
  return cost;
}

/// A task's own time beside its calls'.
void addOverhead(TaskCosts &costs, const DeviceModel &device) {
  wavefront::Cost own = constantCost(device.rates.task);
  for (wavefront::Cost *cost : {&costs.forward, &costs.backward, &costs.weightGradient})
    if (!cost->terms.empty())
      cost->terms.insert(cost->terms.end(), own.terms.begin(), own.terms.end());
}

/// The devices of one stage, a replica each.
std::vector<uint32_t> column(const SectionChoice &choice, size_t stage) {
  std::vector<uint32_t> devices;
  devices.reserve(choice.devices.size());
  for (const std::vector<uint32_t> &replica : choice.devices)
    devices.push_back(replica[stage]);
  return devices;
}

/// Between the stages of a replica, or any replica of one section and any of another.
CommunicationCost edgeCost(const EdgeModel &edge, const Machine &machine, const CompoundLayout &layout) {
  const SectionChoice &from = layout[edge.producer], &to = layout[edge.consumer];
  if (edge.producer != edge.consumer)
    return transferCost(machine, column(from, edge.producerStage), column(to, edge.consumerStage));
  CommunicationCost slowest;
  for (const std::vector<uint32_t> &replica : from.devices)
    slowest = wider(slowest, transferCost(machine, replica[edge.producerStage], replica[edge.consumerStage]));
  return slowest;
}

Status checkEdge(const CompoundModel &model, const EdgeModel &edge, size_t index) {
  size_t sections = model.sections.size(), sizes = model.microBatches.size();
  if (edge.producer >= sections || edge.consumer >= sections || edge.producer > edge.consumer)
    return wrongCompound(
        fmt::format("edge {} leads from section {} to {}, of {}", index, edge.producer, edge.consumer, sections));
  if (edge.producerStage >= model.sections[edge.producer].stages.size() ||
      edge.consumerStage >= model.sections[edge.consumer].stages.size())
    return wrongCompound(fmt::format("edge {} joins stages {} and {}, which are not there", index, edge.producerStage,
                                     edge.consumerStage));
  if (edge.slotBytes.size() != sizes || (edge.gradient && edge.gradientSlotBytes.size() != sizes))
    return wrongCompound(
        fmt::format("edge {} has {} slot sizes for {} sizes of micro-batches", index, edge.slotBytes.size(), sizes));
  return Status();
}

} // namespace

bool isSame(const MicroBatchCapacity &a, const MicroBatchCapacity &b) {
  return a.samples == b.samples && a.dims == b.dims &&
         std::equal(a.areas.begin(), a.areas.end(), b.areas.begin(), b.areas.end(),
                    [](const wavefront::Area &left, const wavefront::Area &right) {
                      return left.rows == right.rows && left.padded == right.padded && left.capacity == right.capacity;
                    });
}

Status check(const std::vector<MicroBatchCapacity> &capacities, const std::vector<wavefront::Dim> &dims,
             const std::vector<int64_t> &microBatches) {
  if (capacities.size() != microBatches.size())
    return wrongCompound(fmt::format("a section has {} capacities for {} sizes of micro-batches", capacities.size(),
                                     microBatches.size()));
  for (const MicroBatchCapacity &capacity : capacities) {
    if (capacity.samples < 1 || capacity.dims.size() != dims.size())
      return wrongCompound(fmt::format("a capacity of {} samples has {} values for {} dims", capacity.samples,
                                       capacity.dims.size(), dims.size()));
    for (const wavefront::Area &area : capacity.areas)
      if (area.rows >= dims.size() || area.padded >= dims.size() || area.capacity < capacity.dims[area.padded])
        return wrongCompound(fmt::format(
            "an area of {} is not of dims that are there, or does not hold the longest row", area.capacity));
  }
  return Status();
}

Status check(const CompoundModel &model) {
  size_t sizes = model.microBatches.size();
  if (model.dims.empty() || model.sections.empty() || sizes == 0)
    return wrongCompound("has no dims, no sections or no sizes of micro-batches");
  for (const SectionModel &section : model.sections) {
    MAESTRO_TRY(check(section.capacities, model.dims, model.microBatches));
    if (section.stages.empty())
      return wrongCompound("section '" + section.name + "' has no stages");
    for (const StageModel &stage : section.stages)
      if (stage.at.size() != sizes)
        return wrongCompound(fmt::format("section '{}' has costs for {} of {} sizes of micro-batches", section.name,
                                         stage.at.size(), sizes));
    for (uint32_t dim : section.activeDims)
      if (dim >= model.dims.size())
        return wrongCompound(
            fmt::format("section '{}' is active by dim {} of {}", section.name, dim, model.dims.size()));
  }
  for (size_t e = 0; e < model.edges.size(); ++e)
    MAESTRO_TRY(checkEdge(model, model.edges[e], e));
  return Status();
}

Status check(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout) {
  MAESTRO_TRY(check(machine));
  if (layout.size() != model.sections.size())
    return wrongCompound(fmt::format("a layout has {} choices for {} sections", layout.size(), model.sections.size()));
  for (size_t s = 0; s < layout.size(); ++s) {
    if (layout[s].microBatch >= model.microBatches.size() || layout[s].devices.empty())
      return wrongCompound("the layout of section '" + model.sections[s].name + "' has no micro-batch or no devices");
    for (const std::vector<uint32_t> &replica : layout[s].devices) {
      if (replica.size() != model.sections[s].stages.size())
        return wrongCompound(fmt::format("section '{}' has {} stages, a replica of it {} devices",
                                         model.sections[s].name, model.sections[s].stages.size(), replica.size()));
      for (uint32_t device : replica)
        if (device >= machine.devices)
          return wrongCompound(
              fmt::format("section '{}' runs on device {} of {}", model.sections[s].name, device, machine.devices));
    }
  }
  return Status();
}

Seconds updateSeconds(const StageModel &stage, std::span<const uint32_t> devices, const Machine &machine) {
  Seconds longest(0);
  for (const DeviceModel *kind : kindsOf(machine, devices))
    longest = std::max(
        longest,
        Bytes(static_cast<double>(stage.parameters.moved())) / kind->rates.stream * kind->rates.update +
            Flops(static_cast<double>(stage.parameters.updateFlops)) /
                (kind->multiprocessors > 0 ? kind->rates.arithmeticBf16 : kind->rates.arithmetic)); // kernels/README.md
  return longest;
}

Seconds stepEndSeconds(const StageModel &stage, std::span<const uint32_t> devices, const Machine &machine) {
  return updateSeconds(stage, devices, machine) + reductionSeconds(stage.parameters.gradients, devices, machine);
}

uint64_t stageBytes(const StageModel &stage, uint32_t microBatch, uint64_t slots) {
  const StageCosts &costs = stage.at[microBatch];
  return stage.parameters.resident() + costs.slotBytes * slots + costs.workspaceBytes + costs.hostBytes;
}

Seconds StepOverheads::add(std::span<const uint32_t> devices, const Machine &machine) {
  Seconds longest(0);
  seen.resize(machine.devices);
  for (uint32_t device : devices)
    if (!std::exchange(seen[device], uint8_t{1}))
      longest = std::max(longest, machine.device(device).rates.step);
  return longest;
}

TaskCosts taskCosts(const MicroBatchCapacity &capacity, const StageCosts &costs, std::span<const uint32_t> devices,
                    const Machine &machine) {
  const std::vector<int64_t> &full = capacity.dims;
  TaskCosts slowest{costs.forward, costs.backward, costs.weightGradient};
  addOverhead(slowest, machine.device(devices.front()));
  if (costs.otherKinds.empty() || machine.kindOf.empty())
    return slowest;
  int64_t most = -1;
  std::vector<uint8_t> seen(machine.kinds.size(), 0);
  for (uint32_t device : devices) {
    uint32_t kind = machine.kindIndex(device);
    if (seen[kind]++)
      continue;
    TaskCosts own =
        kind == 0 ? TaskCosts{costs.forward, costs.backward, costs.weightGradient} : costs.otherKinds[kind - 1];
    addOverhead(own, machine.kinds[kind]);
    int64_t time = 0;
    for (const wavefront::Cost *cost : {&own.forward, &own.backward, &own.weightGradient})
      time += wavefront::evaluate(*cost, full.data());
    if (time > most) {
      most = time;
      slowest = std::move(own);
    }
  }
  return slowest;
}

wavefront::Cost transferTime(const std::vector<BytesTerm> &bytes, const CommunicationCost &cost) {
  constexpr double kMostPicoseconds = 1e17;
  wavefront::Cost time = constantCost(cost.latency);
  for (const BytesTerm &term : bytes)
    if (double picoseconds = term.bytes * cost.secondsPerByte * 1e12; picoseconds >= 1)
      time.terms.push_back({static_cast<int64_t>(std::min(picoseconds, kMostPicoseconds)), term.dims});
  return time;
}

wavefront::Problem makeProblem(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout) {
  std::vector<uint32_t> first = firstStages(model);
  InFlight limits = inFlight(model, layout);
  wavefront::Problem problem;
  problem.dims = model.dims;
  problem.devices = machine.devices;
  StepOverheads overheads;
  for (uint32_t s = 0; s < model.sections.size(); ++s) {
    const SectionModel &source = model.sections[s];
    const SectionChoice &choice = layout[s];
    wavefront::Section section;
    section.name = source.name;
    section.trains = source.trains;
    section.splitsBackward = source.splitsBackward;
    section.activeDims = source.activeDims;
    section.unpadded = source.unpadded;
    const MicroBatchCapacity &capacity = source.capacities[choice.microBatch];
    section.maxSamples = capacity.samples;
    section.capacity = capacity.dims;
    section.areas = capacity.areas;
    section.devices = choice.devices;
    for (uint32_t i = 0; i < source.stages.size(); ++i) {
      const StageModel &stage = source.stages[i];
      wavefront::Stage &task = section.stages.emplace_back();
      std::vector<uint32_t> devices = column(choice, i);
      TaskCosts costs = taskCosts(capacity, stage.at[choice.microBatch], devices, machine);
      task.forward = std::move(costs.forward);
      task.slots = limits.slots[first[s] + i];
      if (!source.trains)
        continue;
      task.backward = std::move(costs.backward);
      task.weightGradient = std::move(costs.weightGradient);
      task.update = constantCost(stepEndSeconds(stage, devices, machine) + overheads.add(devices, machine));
    }
    problem.sections.push_back(std::move(section));
  }
  for (size_t e = 0; e < model.edges.size(); ++e) {
    const EdgeModel &source = model.edges[e];
    wavefront::Edge edge;
    edge.producer = source.producer;
    edge.producerStage = source.producerStage;
    edge.consumer = source.consumer;
    edge.consumerStage = source.consumerStage;
    edge.gradient = source.gradient;
    edge.heldUntilBackward = source.heldUntilBackward;
    edge.depth = limits.depth[e];
    edge.gradientDepth = source.gradient ? limits.gradientDepth[e] : 1;
    edge.transfer = edge.gradientTransfer = transferTime(source.bytes, edgeCost(source, machine, layout));
    problem.edges.push_back(std::move(edge));
  }
  return problem;
}

std::vector<uint64_t> deviceBytes(const CompoundModel &model, const Machine &machine, const CompoundLayout &layout) {
  std::vector<uint32_t> first = firstStages(model);
  InFlight limits = inFlight(model, layout);
  std::vector<uint64_t> ofStages;
  for (uint32_t s = 0; s < model.sections.size(); ++s)
    for (const StageModel &stage : model.sections[s].stages)
      ofStages.push_back(stageBytes(stage, layout[s].microBatch, limits.slots[ofStages.size()]));
  for (size_t e = 0; e < model.edges.size(); ++e) {
    const EdgeModel &edge = model.edges[e];
    ofStages[first[edge.consumer] + edge.consumerStage] +=
        limits.depth[e] * edge.slotBytes[layout[edge.consumer].microBatch];
    if (edge.gradient)
      ofStages[first[edge.producer] + edge.producerStage] +=
          limits.gradientDepth[e] * edge.gradientSlotBytes[layout[edge.producer].microBatch];
  }
  std::vector<uint64_t> bytes(machine.devices, 0);
  for (uint32_t s = 0; s < model.sections.size(); ++s)
    for (const std::vector<uint32_t> &replica : layout[s].devices)
      for (uint32_t stage = 0; stage < replica.size(); ++stage) {
        uint64_t &device = bytes[replica[stage]];
        const StageModel &facts = model.sections[s].stages[stage];
        if (device > 0)
          device -= std::min(machine.processBytes, facts.at[layout[s].microBatch].hostBytes);
        device += ofStages[first[s] + stage];
        if (facts.parameters.gradients > 0 && layout[s].devices.size() > 1)
          device += machine.stagingBytes;
      }
  return bytes;
}

} // namespace maestro::cost_models
