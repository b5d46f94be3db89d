// The rules of README.md, one function each. Written from the rules and nothing else: it shares no code with the
// scheduler but the costs' evaluation, so that a mistake there cannot hide here.
#include "wavefront/verify_state.h"

#include <algorithm>

namespace maestro::wavefront {

using State = Verifier::State;

Status State::checkShape() {
  if (schedule->deviceTasks.size() != size_t{problem->devices} + 1 || schedule->deviceTasks.front() != 0 ||
      schedule->deviceTasks.back() != schedule->tasks.size() ||
      !std::is_sorted(schedule->deviceTasks.begin(), schedule->deviceTasks.end()))
    return broken("the devices' lists of tasks do not cover the tasks");
  if (schedule->dims.size() != schedule->microBatches.size() * problem->dims.size())
    return broken("combined dims are not one set a micro-batch");
  uint32_t section = 0;
  for (size_t g = 0; g < schedule->microBatches.size(); ++g) {
    const MicroBatch &batch = schedule->microBatches[g];
    if (batch.section >= problem->sections.size() || batch.section < section)
      return broken("micro-batch " + std::to_string(g) + " is not in the order of the sections");
    section = batch.section;
    if (batch.replica >= problem->sections[section].devices.size())
      return broken(name(static_cast<uint32_t>(g)) + " is on replica " + std::to_string(batch.replica) + " of " +
                    std::to_string(problem->sections[section].devices.size()));
    if (uint64_t{batch.firstSample} + batch.samples > schedule->samples.size() || batch.samples == 0 ||
        uint64_t{batch.firstDim} + problem->dims.size() > schedule->dims.size())
      return broken(name(static_cast<uint32_t>(g)) + " has no samples, or samples or dims out of range");
  }
  return Status();
}

/// Rule 2.
Status State::checkMicroBatches() {
  for (uint32_t g = 0; g < schedule->microBatches.size(); ++g) {
    const MicroBatch &batch = schedule->microBatches[g];
    const Section &section = problem->sections[batch.section];
    if (static_cast<int64_t>(batch.samples) > section.maxSamples)
      return broken(name(g) + " holds " + std::to_string(batch.samples) + " samples; its capacity is " +
                    std::to_string(section.maxSamples));
    for (uint32_t sample : schedule->samplesOf(batch))
      if (sample >= problem->sampleCount())
        return broken(name(g) + " holds sample " + std::to_string(sample) + " of " +
                      std::to_string(problem->sampleCount()));
    for (size_t d = 0; d < problem->dims.size(); ++d) {
      int64_t value = 0;
      bool agree = true;
      for (uint32_t sample : schedule->samplesOf(batch)) {
        int64_t own = problem->sizes[sample * problem->dims.size() + d];
        agree &= value == 0 || own == 0 || value == own;
        value = combineLargest(problem->dims[d], value, own);
      }
      if (!agree && isUnpadded(section, static_cast<uint32_t>(d)))
        return broken(name(g) + " holds samples of different " + problem->dims[d].name + ", which must not be padded");
      if (value != schedule->dims[batch.firstDim + d])
        return broken(name(g) + " has " + problem->dims[d].name + " = " + std::to_string(value) +
                      ", and the schedule says " + std::to_string(schedule->dims[batch.firstDim + d]));
      if (value > section.capacity[d])
        return broken(name(g) + " has " + problem->dims[d].name + " = " + std::to_string(value) + "; its capacity is " +
                      std::to_string(section.capacity[d]));
    }
    for (const Area &area : section.areas) {
      int64_t rows = schedule->dims[batch.firstDim + area.rows], padded = schedule->dims[batch.firstDim + area.padded],
              tokens = 0;
      if (__builtin_mul_overflow(rows, padded, &tokens) || tokens > area.capacity)
        return broken(name(g) + " has " + problem->dims[area.rows].name + " = " + std::to_string(rows) + " times " +
                      problem->dims[area.padded].name + " = " + std::to_string(padded) + ": " + std::to_string(tokens) +
                      " padded tokens; its capacity is " + std::to_string(area.capacity));
    }
  }
  return Status();
}

/// Rule 1.
Status State::checkCoverage() {
  groups.assign(problem->sections.size() * problem->sampleCount(), kAbsent);
  for (uint32_t g = 0; g < schedule->microBatches.size(); ++g) {
    const MicroBatch &batch = schedule->microBatches[g];
    for (uint32_t sample : schedule->samplesOf(batch)) {
      uint32_t &group = groupOf(batch.section, sample);
      if (group != kAbsent)
        return broken("sample " + std::to_string(sample) + " is in " + name(group) + " and in " + name(g));
      group = g;
    }
  }
  for (uint32_t s = 0; s < problem->sections.size(); ++s)
    for (uint32_t sample = 0; sample < problem->sampleCount(); ++sample) {
      bool active = takesPart(problem->sections[s], problem->sizes.data() + sample * problem->dims.size());
      if (active != (groupOf(s, sample) != kAbsent))
        return broken("sample " + std::to_string(sample) + (active ? " is missing in " : " takes no part in ") +
                      problem->sections[s].name);
    }
  return Status();
}

/// Where things lie in the flat lists.
void State::index() {
  firstOfGroup.clear();
  firstStation.clear();
  firstStage.clear();
  uint32_t visited = 0;
  for (const MicroBatch &batch : schedule->microBatches) {
    firstOfGroup.push_back(visited);
    visited += static_cast<uint32_t>(problem->sections[batch.section].stages.size());
  }
  taskIndex.assign(size_t{visited} * 3, kAbsent);
  for (int backward = 0; backward < 2; ++backward) {
    position[backward].assign(visited, 0);
    orders[backward].assign(visited, kAbsent);
  }
  size_t stages = 0;
  stations = 0;
  for (const Section &section : problem->sections) {
    firstStation.push_back(stations);
    firstStage.push_back(stages);
    stations += section.devices.size() * section.stages.size();
    stages += section.stages.size();
  }
  edgesFrom.fill(stages, [&](auto add) {
    for (uint32_t e = 0; e < problem->edges.size(); ++e)
      add(firstStage[problem->edges[e].producer] + problem->edges[e].producerStage, e);
  });
  edgesTo.fill(stages, [&](auto add) {
    for (uint32_t e = 0; e < problem->edges.size(); ++e)
      add(firstStage[problem->edges[e].consumer] + problem->edges[e].consumerStage, e);
  });
}

/// Where its station is, for as long as it costs.
Status State::checkTask(uint32_t number, uint32_t device) {
  const Task &task = schedule->tasks[number];
  if (task.microBatch >= schedule->microBatches.size())
    return broken("task " + std::to_string(number) + " is of micro-batch " + std::to_string(task.microBatch) + " of " +
                  std::to_string(schedule->microBatches.size()));
  const MicroBatch &batch = schedule->microBatches[task.microBatch];
  const Section &section = problem->sections[batch.section];
  if (task.stage >= section.stages.size() || static_cast<uint32_t>(task.kind) >= kinds(section))
    return broken("task " + std::to_string(number) + " of " + name(task.microBatch) +
                  " is of a stage or kind that it lacks");
  if (section.devices[batch.replica][task.stage] != device)
    return broken(name(task) + " is on device " + std::to_string(device) + ", its station on " +
                  std::to_string(section.devices[batch.replica][task.stage]));
  if (taskOf(task.microBatch, task.stage, task.kind) != kAbsent)
    return broken(name(task) + " is there twice");
  taskOf(task.microBatch, task.stage, task.kind) = number;
  const Stage &stage = section.stages[task.stage];
  const Cost &cost = task.kind == TaskKind::Forward    ? stage.forward
                     : task.kind == TaskKind::Backward ? stage.backward
                                                       : stage.weightGradient;
  int64_t takes = evaluate(cost, schedule->dims.data() + batch.firstDim);
  if (task.startNs < 0 || task.endNs - task.startNs != takes)
    return broken(name(task) + " is planned from " + std::to_string(task.startNs) + " to " +
                  std::to_string(task.endNs) + ", and takes " + std::to_string(takes));
  return Status();
}

/// Every task once.
Status State::checkTasks() {
  uint32_t expected = 0;
  for (const MicroBatch &batch : schedule->microBatches)
    expected +=
        static_cast<uint32_t>(problem->sections[batch.section].stages.size()) * kinds(problem->sections[batch.section]);
  for (uint32_t device = 0; device < problem->devices; ++device)
    for (uint32_t i = schedule->deviceTasks[device]; i < schedule->deviceTasks[device + 1]; ++i)
      MAESTRO_TRY(checkTask(i, device));
  if (schedule->tasks.size() != expected)
    return broken("has " + std::to_string(schedule->tasks.size()) + " of " + std::to_string(expected) + " tasks");
  return Status();
}

/// Rule 3, first sentence.
Status State::checkDevices() {
  for (uint32_t device = 0; device < problem->devices; ++device) {
    std::span<const Task> tasks = schedule->tasksOf(device);
    for (size_t i = 1; i < tasks.size(); ++i)
      if (tasks[i].startNs < tasks[i - 1].endNs)
        return broken(name(tasks[i]) + " starts before " + name(tasks[i - 1]) + " ends on device " +
                      std::to_string(device));
  }
  return Status();
}

Status State::checkTotals() {
  int64_t end = 0;
  for (const Task &task : schedule->tasks)
    end = std::max(end, task.endNs);
  if (end != schedule->makespanNs)
    return broken("ends at " + std::to_string(end) + ", and says " + std::to_string(schedule->makespanNs));
  if (schedule->lowerBoundNs > end)
    return broken("is shorter (" + std::to_string(end) + " ns) than its lower bound of " +
                  std::to_string(schedule->lowerBoundNs));
  return Status();
}

Status State::run(const Problem &ofStep, const Schedule &toVerify) {
  problem = &ofStep;
  schedule = &toVerify;
  MAESTRO_TRY(checkShape());
  MAESTRO_TRY(checkMicroBatches());
  MAESTRO_TRY(checkCoverage());
  index();
  MAESTRO_TRY(checkTasks());
  MAESTRO_TRY(checkDevices());
  MAESTRO_TRY(checkSlots());
  collectOrders();
  MAESTRO_TRY(checkPrecedences());
  MAESTRO_TRY(checkNoCycle());
  return checkTotals();
}

Verifier::Verifier() : state(std::make_unique<State>()) {}
Verifier::~Verifier() = default;

Status Verifier::run(const Problem &problem, const Schedule &schedule) { return state->run(problem, schedule); }

Status verify(const Problem &problem, const Schedule &schedule) { return Verifier().run(problem, schedule); }

} // namespace maestro::wavefront
