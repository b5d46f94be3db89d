// The rules of README.md on what waits for what: slots, rings, arrivals, and no circle.
#include "wavefront/verify_state.h"

#include <algorithm>

namespace maestro::wavefront {

using State = Verifier::State;

/// Rule 4: a station's tasks are all on one device, so that the order alone decides.
Status State::checkSlots() {
  inFlight.assign(stations, 0);
  for (const Task &task : schedule->tasks) {
    const MicroBatch &batch = schedule->microBatches[task.microBatch];
    const Section &section = problem->sections[batch.section];
    uint32_t &count = inFlight[stationOf(batch, task.stage)];
    if (task.kind == TaskKind::Forward && ++count > section.stages[task.stage].slots)
      return broken(name(task) + " starts with " + std::to_string(count - 1) +
                    " micro-batches in flight; slots: " + std::to_string(section.stages[task.stage].slots));
    if (static_cast<uint32_t>(task.kind) + 1 == kinds(section))
      --count;
  }
  return Status();
}

void State::collectOrders() {
  firstOrder.assign(stations + 1, 0);
  for (const MicroBatch &batch : schedule->microBatches)
    for (uint32_t stage = 0; stage < problem->sections[batch.section].stages.size(); ++stage)
      ++firstOrder[stationOf(batch, stage) + 1];
  for (size_t station = 0; station < stations; ++station)
    firstOrder[station + 1] += firstOrder[station];
  for (int backward = 0; backward < 2; ++backward) {
    filled.assign(stations, 0);
    for (const Task &task : schedule->tasks) {
      if (task.kind != (backward ? TaskKind::Backward : TaskKind::Forward))
        continue;
      size_t station = stationOf(schedule->microBatches[task.microBatch], task.stage);
      position[backward][firstOfGroup[task.microBatch] + task.stage] = filled[station];
      orders[backward][firstOrder[station] + filled[station]++] = task.microBatch;
    }
  }
}

uint32_t State::slotBefore(int backward, uint32_t group, uint32_t stage, uint32_t depth) const {
  uint32_t at = position[backward][firstOfGroup[group] + stage];
  if (at < depth)
    return kAbsent;
  return orders[backward][firstOrder[stationOf(schedule->microBatches[group], stage)] + at - depth];
}

/// The micro-batches of another section, or the same one, that share a sample with this one; once a sample.
template <typename Partner> void State::forEachPartner(uint32_t group, uint32_t section, Partner partner) {
  const MicroBatch &batch = schedule->microBatches[group];
  if (section == batch.section)
    return partner(group);
  uint32_t last = kAbsent;
  for (uint32_t sample : schedule->samplesOf(batch)) {
    uint32_t other = groupOf(section, sample);
    if (other != kAbsent && other != last)
      partner(other);
    last = other;
  }
}

/// Visits each task that must end before `task` starts, with the time between them (rule 3 and rule 5).
template <typename Visit> void State::forEachBefore(const Task &task, Visit visit) {
  const MicroBatch &batch = schedule->microBatches[task.microBatch];
  auto lastKind = [&](uint32_t section) { return static_cast<TaskKind>(kinds(problem->sections[section]) - 1); };
  auto lag = [&](const Cost &cost, uint32_t group) {
    return evaluate(cost, schedule->dims.data() + schedule->microBatches[group].firstDim);
  };
  if (task.kind != TaskKind::Forward) {
    visit(taskOf(task.microBatch, task.stage, TaskKind::Forward), 0);
    if (task.kind == TaskKind::WeightGradient)
      return visit(taskOf(task.microBatch, task.stage, TaskKind::Backward), 0);
  }
  bool forward = task.kind == TaskKind::Forward;
  size_t stage = firstStage[batch.section] + task.stage;
  for (uint32_t number : edgesTo.of(stage)) { // What arrived, and room for its gradient.
    const Edge &edge = problem->edges[number];
    if (forward || edge.gradient)
      forEachPartner(task.microBatch, edge.producer, [&](uint32_t producer) {
        if (forward)
          return visit(taskOf(producer, edge.producerStage, TaskKind::Forward), lag(edge.transfer, producer));
        uint32_t before = slotBefore(1, producer, edge.producerStage, edge.gradientDepth);
        if (before != kAbsent)
          visit(taskOf(before, edge.producerStage, lastKind(edge.producer)), 0);
      });
  }
  for (uint32_t number : edgesFrom.of(stage)) { // Room for what leaves, and its gradient.
    const Edge &edge = problem->edges[number];
    if (forward || edge.gradient)
      forEachPartner(task.microBatch, edge.consumer, [&](uint32_t consumer) {
        if (!forward)
          return visit(taskOf(consumer, edge.consumerStage, TaskKind::Backward), lag(edge.gradientTransfer, consumer));
        uint32_t before = slotBefore(0, consumer, edge.consumerStage, edge.depth);
        if (before != kAbsent)
          visit(
              taskOf(before, edge.consumerStage, edge.heldUntilBackward ? lastKind(edge.consumer) : TaskKind::Forward),
              0);
      });
  }
}

Status State::checkPrecedences() {
  mayCircle = false;
  for (size_t i = 0; i < schedule->tasks.size(); ++i) {
    const Task &task = schedule->tasks[i];
    uint32_t late = kAbsent;
    int64_t lateLagNs = 0;
    forEachBefore(task, [&](uint32_t before, int64_t lagNs) {
      const Task &earlier = schedule->tasks[before];
      mayCircle |= earlier.startNs == task.startNs;
      if (late == kAbsent && earlier.endNs + lagNs > task.startNs)
        late = before, lateLagNs = lagNs;
    });
    if (late != kAbsent)
      return broken(name(task) + " starts at " + std::to_string(task.startNs) + "; " + name(schedule->tasks[late]) +
                    " ends at " + std::to_string(schedule->tasks[late].endNs) + ", and " + std::to_string(lateLagNs) +
                    " ns must pass");
  }
  return Status();
}

/// Times alone could hide a circle of tasks that take no time, which then all begin at once: where none begins with one
/// that it waits for, there is none. (Of a device's tasks the later one never begins before: checkDevices().)
Status State::checkNoCycle() {
  if (!mayCircle)
    return Status();
  size_t count = schedule->tasks.size();
  waiting.assign(count, 0);
  after.fill(count, [&](auto add) {
    for (uint32_t device = 0; device < problem->devices; ++device)
      for (uint32_t i = schedule->deviceTasks[device]; i < schedule->deviceTasks[device + 1]; ++i) {
        if (i > schedule->deviceTasks[device])
          add(i - 1, i);
        forEachBefore(schedule->tasks[i], [&](uint32_t before, int64_t) { add(before, i); });
      }
  });
  for (uint32_t task : after.items)
    ++waiting[task];
  ready.clear();
  for (uint32_t i = 0; i < count; ++i)
    if (waiting[i] == 0)
      ready.push_back(i);
  for (size_t next = 0; next < ready.size(); ++next)
    for (uint32_t task : after.of(ready[next]))
      if (--waiting[task] == 0)
        ready.push_back(task);
  if (ready.size() == count)
    return Status();
  size_t stuck = static_cast<size_t>(std::find_if(waiting.begin(), waiting.end(), [](uint32_t w) { return w > 0; }) -
                                     waiting.begin());
  return broken(name(schedule->tasks[stuck]) + " waits for itself: the order would deadlock");
}

} // namespace maestro::wavefront
