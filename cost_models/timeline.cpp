#include "cost_models/timeline.h"

#include "wavefront/problem_index.h"

#include <algorithm>
#include <utility>

namespace maestro::cost_models {

using namespace wavefront;

namespace {

/// Nodes are all steps' tasks, then for each step one for "all gradients are known", an update per device, and its end.
/// Each has arcs from what must end before it starts, and how long in between; a walk in topological order yields
/// times.
class Evaluator {
public:
  Evaluator(std::span<const TimelineStep> steps, Boundary boundary, Timeline &timeline)
      : steps(steps), boundary(boundary), timeline(timeline) {}

  Status run() {
    MAESTRO_TRY(checkSteps());
    index.build(*steps[0].problem);
    layOutNodes();
    collectStations();
    chainDevices();
    arcs.reserve(durationNs.size() * 6);
    for (uint32_t s = 0; s < steps.size(); ++s) {
      addTaskArcs(s);
      addBarrierArcs(s);
    }
    MAESTRO_TRY(walk());
    report();
    return Status();
  }

private:
  struct Arc {
    uint32_t from;
    int64_t lagNs;
  };
  struct Node {
    uint32_t firstArc = 0, endArc = 0;      ///< Those that are still to be looked at.
    uint32_t before = kNone, after = kNone; ///< On its device.
    uint32_t watcher = kNone,
             other = kNone; ///< Who waits for this one's end first, and who else waits for what this one waits for.
  };

  const Problem &problem(uint32_t step) const { return *steps[step].problem; }
  const Schedule &schedule(uint32_t step) const { return *steps[step].schedule; }
  uint32_t devices() const { return steps[0].problem->devices; }
  uint32_t barrier(uint32_t step) const { return firstBarrier + step * (devices() + 2); }
  uint32_t update(uint32_t step, uint32_t device) const { return barrier(step) + 1 + device; }
  uint32_t stepEnd(uint32_t step) const { return barrier(step) + 1 + devices(); }
  bool trains(uint32_t section) const { return steps[0].problem->sections[section].trains; }
  /// Arcs to a node lie side by side.
  void beginNode(uint32_t n) {
    nodes[n].firstArc = static_cast<uint32_t>(arcs.size());
    if (nodes[n].before != kNone)
      arc(nodes[n].before);
  }
  void endNode(uint32_t n) { nodes[n].endArc = static_cast<uint32_t>(arcs.size()); }
  void arc(uint32_t from, int64_t lagNs = 0) { arcs.push_back({from, lagNs}); }
  uint32_t station(uint32_t step, const Task &task) const {
    const MicroBatch &group = schedule(step).microBatches[task.microBatch];
    return index.station(problem(0), group.section, group.replica, task.stage);
  }
  uint32_t node(uint32_t step, uint32_t group, uint32_t stage, TaskKind kind) const {
    return nodeOf[step][firstOf[step][group] + stage * 3 + static_cast<uint32_t>(kind)];
  }
  TaskKind lastKind(uint32_t section) const {
    const Section &rules = steps[0].problem->sections[section];
    return rules.splitsBackward ? TaskKind::WeightGradient : rules.trains ? TaskKind::Backward : TaskKind::Forward;
  }

  Status checkSteps() const;
  void layOutNodes();
  void collectStations();
  void chainDevices();
  void addTaskArcs(uint32_t step);
  void addEdgeArcs(uint32_t step, const Task &task);
  void addBarrierArcs(uint32_t step);
  Status walk();
  void report();
  template <typename Visit> void forEachPartner(uint32_t step, const Task &task, uint32_t section, Visit visit) const;

  std::span<const TimelineStep> steps;
  Boundary boundary;
  Timeline &timeline;
  ProblemIndex index;
  std::vector<uint32_t> firstNode; ///< By step.
  uint32_t firstBarrier = 0;
  std::vector<int64_t> durationNs;                    ///< By node.
  std::vector<std::vector<uint32_t>> firstOf, nodeOf; ///< By step: by group; by group, stage and kind.
  std::vector<std::vector<uint32_t>> groupOf;         ///< By step: section × sample.
  struct Turn {
    uint32_t step, group;
  };
  std::vector<std::vector<Turn>> orders[2]; ///< Forward and backward, by station, all steps.
  std::vector<uint32_t> position[2];        ///< Forward and backward, by task node.
  std::vector<uint8_t> deviceTrains;
  std::vector<Node> nodes;
  std::vector<Arc> arcs;
  std::vector<int64_t> startNs, endNs; ///< By node.
};

Status Evaluator::checkSteps() const {
  for (uint32_t s = 0; s < steps.size(); ++s) {
    const Problem &first = problem(0), &other = problem(s);
    bool same = first.devices == other.devices && first.sections.size() == other.sections.size() &&
                first.edges.size() == other.edges.size();
    for (size_t i = 0; same && i < first.sections.size(); ++i)
      same = first.sections[i].devices == other.sections[i].devices &&
             first.sections[i].trains == other.sections[i].trains &&
             first.sections[i].splitsBackward == other.sections[i].splitsBackward;
    if (!same)
      return Status::invalidInput("timeline: step " + std::to_string(s) +
                                  " has other sections, devices or edges than step 0");
    if (!steps[s].durationsNs.empty() && steps[s].durationsNs.size() != schedule(s).tasks.size())
      return Status::invalidInput("timeline: step " + std::to_string(s) + " has " +
                                  std::to_string(schedule(s).tasks.size()) + " tasks and " +
                                  std::to_string(steps[s].durationsNs.size()) + " durations");
  }
  return Status();
}

void Evaluator::layOutNodes() {
  for (uint32_t s = 0; s < steps.size(); ++s) {
    firstNode.push_back(static_cast<uint32_t>(durationNs.size()));
    for (size_t i = 0; i < schedule(s).tasks.size(); ++i) {
      const Task &task = schedule(s).tasks[i];
      const MicroBatch &group = schedule(s).microBatches[task.microBatch];
      const Stage &stage = problem(s).sections[group.section].stages[task.stage];
      const Cost &cost = task.kind == TaskKind::Forward    ? stage.forward
                         : task.kind == TaskKind::Backward ? stage.backward
                                                           : stage.weightGradient;
      durationNs.push_back(steps[s].durationsNs.empty() ? evaluate(cost, schedule(s).dims.data() + group.firstDim)
                                                        : steps[s].durationsNs[i]);
    }
  }
  firstBarrier = static_cast<uint32_t>(durationNs.size());
  durationNs.resize(firstBarrier + steps.size() * (devices() + 2), 0);
  deviceTrains.assign(devices(), 0);
  for (uint32_t s = 0; s < steps.size(); ++s)
    for (const Section &section : problem(s).sections)
      for (const std::vector<uint32_t> &replica : section.devices)
        for (size_t stage = 0; section.trains && stage < replica.size(); ++stage) {
          deviceTrains[replica[stage]] = 1;
          durationNs[update(s, replica[stage])] += evaluate(section.stages[stage].update, nullptr);
        }
}

void Evaluator::collectStations() {
  for (auto &order : orders)
    order.resize(index.stationDevice.size());
  for (auto &list : position)
    list.resize(firstBarrier);
  for (uint32_t s = 0; s < steps.size(); ++s) {
    const Schedule &plan = schedule(s);
    uint32_t total = 0;
    firstOf.emplace_back();
    groupOf.emplace_back(problem(s).sections.size() * problem(s).sampleCount(), kNone);
    for (uint32_t g = 0; g < plan.microBatches.size(); ++g) {
      const MicroBatch &group = plan.microBatches[g];
      firstOf[s].push_back(total);
      total += static_cast<uint32_t>(problem(s).sections[group.section].stages.size()) * 3;
      for (uint32_t sample : plan.samplesOf(group))
        groupOf[s][group.section * problem(s).sampleCount() + sample] = g;
    }
    nodeOf.emplace_back(total, kNone);
    for (uint32_t i = 0; i < plan.tasks.size(); ++i) {
      const Task &task = plan.tasks[i];
      nodeOf[s][firstOf[s][task.microBatch] + task.stage * 3u + static_cast<uint32_t>(task.kind)] = firstNode[s] + i;
      if (task.kind == TaskKind::WeightGradient)
        continue;
      int backward = task.kind == TaskKind::Backward;
      std::vector<Turn> &order = orders[backward][station(s, task)];
      position[backward][firstNode[s] + i] = static_cast<uint32_t>(order.size());
      order.push_back({s, task.microBatch});
    }
  }
}

/// A device's own order: tasks, and the update of the step before ahead of the first task that trains.
void Evaluator::chainDevices() {
  nodes.assign(durationNs.size(), {});
  std::vector<uint32_t> last(devices(), kNone);
  for (uint32_t s = 0; s < steps.size(); ++s)
    for (uint32_t d = 0; d < devices(); ++d) {
      bool updated = s == 0 || !deviceTrains[d];
      auto join = [&](uint32_t to) {
        nodes[to].before = last[d];
        if (last[d] != kNone)
          nodes[last[d]].after = to;
        last[d] = to;
      };
      for (uint32_t i = schedule(s).deviceTasks[d]; i < schedule(s).deviceTasks[d + 1]; ++i) {
        const Task &task = schedule(s).tasks[i];
        bool waits = boundary != Boundary::RunAhead || trains(schedule(s).microBatches[task.microBatch].section);
        if (waits && !updated) { // Where only weights are waited for, a frozen section's task may come before.
          join(update(s - 1, d));
          updated = true;
        }
        join(firstNode[s] + i);
      }
      if (!updated)
        join(update(s - 1, d));
      if (s + 1 == steps.size() && deviceTrains[d])
        join(update(s, d));
    }
}

template <typename Visit>
void Evaluator::forEachPartner(uint32_t s, const Task &task, uint32_t section, Visit visit) const {
  const MicroBatch &group = schedule(s).microBatches[task.microBatch];
  if (section == group.section)
    return visit(task.microBatch);
  uint32_t last = kNone;
  for (uint32_t sample : schedule(s).samplesOf(group)) {
    uint32_t partner = groupOf[s][section * problem(s).sampleCount() + sample];
    if (partner != kNone && partner != last)
      visit(partner);
    last = partner;
  }
}

void Evaluator::addEdgeArcs(uint32_t s, const Task &task) {
  const MicroBatch &group = schedule(s).microBatches[task.microBatch];
  const int64_t *dims = schedule(s).dims.data();
  uint32_t stageId = index.stageId(group.section, task.stage);
  bool backward = task.kind == TaskKind::Backward;
  // Data comes along edges that end here, gradients along those that begin here; what is written takes a ring's slot.
  for (uint32_t e : backward ? index.edgesOut[stageId] : index.edgesIn[stageId]) {
    const Edge &edge = problem(s).edges[e];
    if (backward && !edge.gradient)
      continue;
    forEachPartner(s, task, backward ? edge.consumer : edge.producer, [&](uint32_t partner) {
      const int64_t *sizes = dims + schedule(s).microBatches[partner].firstDim;
      arc(node(s, partner, backward ? edge.consumerStage : edge.producerStage, task.kind),
          evaluate(backward ? edge.gradientTransfer : edge.transfer, sizes));
    });
  }
  for (uint32_t e : backward ? index.edgesIn[stageId] : index.edgesOut[stageId]) {
    const Edge &edge = problem(s).edges[e];
    if (backward && !edge.gradient)
      continue;
    uint32_t section = backward ? edge.producer : edge.consumer,
             stage = backward ? edge.producerStage : edge.consumerStage;
    uint32_t depth = backward ? edge.gradientDepth : edge.depth;
    TaskKind reader = backward || edge.heldUntilBackward ? lastKind(section) : TaskKind::Forward;
    forEachPartner(s, task, section, [&](uint32_t partner) {
      uint32_t at = position[backward][node(s, partner, stage, task.kind)];
      if (at < depth)
        return;
      uint32_t replica = schedule(s).microBatches[partner].replica;
      Turn before = orders[backward][index.station(problem(0), section, replica, stage)][at - depth];
      arc(node(before.step, before.group, stage, reader));
    });
  }
}

void Evaluator::addTaskArcs(uint32_t s) {
  for (uint32_t d = 0; d < devices(); ++d)
    for (uint32_t i = schedule(s).deviceTasks[d]; i < schedule(s).deviceTasks[d + 1]; ++i) {
      const Task &task = schedule(s).tasks[i];
      uint32_t to = firstNode[s] + i;
      beginNode(to);
      if (s > 0 && boundary == Boundary::Wait &&
          i == schedule(s).deviceTasks[d]) // The others come later on their devices.
        arc(stepEnd(s - 1));
      if (task.kind != TaskKind::Forward)
        arc(node(s, task.microBatch, task.stage, TaskKind::Forward));
      if (task.kind == TaskKind::WeightGradient)
        arc(node(s, task.microBatch, task.stage, TaskKind::Backward));
      else
        addEdgeArcs(s, task);
      endNode(to);
    }
}

/// All gradients, then the updates. Where every section waits, the step's other tasks hold the next step up as well.
void Evaluator::addBarrierArcs(uint32_t s) {
  beginNode(barrier(s));
  for (uint32_t d = 0; d < devices(); ++d) // The last one's: others come earlier there.
    for (uint32_t i = schedule(s).deviceTasks[d + 1]; i-- > schedule(s).deviceTasks[d];)
      if (boundary == Boundary::Wait || trains(schedule(s).microBatches[schedule(s).tasks[i].microBatch].section)) {
        arc(firstNode[s] + i);
        break;
      }
  if (s > 0)
    arc(barrier(s - 1));
  endNode(barrier(s));
  for (uint32_t d = 0; d < devices(); ++d) {
    beginNode(update(s, d));
    arc(barrier(s));
    endNode(update(s, d));
  }
  beginNode(stepEnd(s));
  for (uint32_t d = 0; d < devices(); ++d)
    arc(update(s, d));
  endNode(stepEnd(s));
}

/// A node is looked at when the one before it on its device has ended, then again whenever what it was found to wait
/// for has: arcs are read once, side by side.
Status Evaluator::walk() {
  constexpr int64_t unknown = -1;
  size_t count = durationNs.size(), ended = 0;
  std::vector<uint32_t> ready;
  startNs.assign(count, 0);
  endNs.assign(count, unknown);
  for (uint32_t n = 0; n < count; ++n)
    if (nodes[n].before == kNone)
      ready.push_back(n);
  while (!ready.empty()) {
    uint32_t n = ready.back();
    ready.pop_back();
    Node &own = nodes[n];
    for (; own.firstArc < own.endArc; ++own.firstArc) {
      const Arc &from = arcs[own.firstArc];
      if (endNs[from.from] == unknown)
        break;
      startNs[n] = std::max(startNs[n], endNs[from.from] + from.lagNs);
    }
    if (own.firstArc < own.endArc) {
      own.other = std::exchange(nodes[arcs[own.firstArc].from].watcher, n);
      continue;
    }
    endNs[n] = startNs[n] + durationNs[n];
    ++ended;
    for (uint32_t watcher = own.watcher; watcher != kNone; watcher = nodes[watcher].other)
      ready.push_back(watcher);
    if (own.after != kNone)
      ready.push_back(own.after);
  }
  if (ended == count)
    return Status();
  size_t stuck = static_cast<size_t>(std::find(endNs.begin(), endNs.end(), unknown) - endNs.begin());
  return Status::internal("timeline: task " + std::to_string(stuck) + " of " + std::to_string(count) +
                          " waits for itself: the devices' orders would deadlock");
}

void Evaluator::report() {
  timeline.steps.resize(steps.size());
  timeline.busyNs.assign(steps.size() * devices(), 0);
  for (uint32_t s = 0; s < steps.size(); ++s) {
    Timeline::Step &step = timeline.steps[s];
    size_t first = firstNode[s], count = schedule(s).tasks.size();
    step.startNs.assign(startNs.begin() + static_cast<int64_t>(first),
                        startNs.begin() + static_cast<int64_t>(first + count));
    step.endNs.assign(endNs.begin() + static_cast<int64_t>(first), endNs.begin() + static_cast<int64_t>(first + count));
    step.tasksNs = count ? *std::max_element(step.endNs.begin(), step.endNs.end()) : 0;
    step.gradientsNs = endNs[barrier(s)];
    step.updatedNs = step.gradientsNs;
    size_t firstUpdate = update(s, 0);
    step.updateStartNs.assign(startNs.begin() + static_cast<int64_t>(firstUpdate),
                              startNs.begin() + static_cast<int64_t>(firstUpdate + devices()));
    step.updateEndNs.assign(endNs.begin() + static_cast<int64_t>(firstUpdate),
                            endNs.begin() + static_cast<int64_t>(firstUpdate + devices()));
    for (uint32_t d = 0; d < devices(); ++d) {
      if (durationNs[update(s, d)] > 0)
        step.updatedNs = std::max(step.updatedNs, endNs[update(s, d)]);
      int64_t &busy = timeline.busyNs[s * devices() + d];
      busy = durationNs[update(s, d)];
      for (uint32_t i = schedule(s).deviceTasks[d]; i < schedule(s).deviceTasks[d + 1]; ++i)
        busy += durationNs[first + i];
    }
  }
}

} // namespace

Status computeTimeline(std::span<const TimelineStep> steps, Boundary boundary, Timeline &timeline) {
  if (steps.empty()) {
    timeline = {};
    return Status();
  }
  return Evaluator(steps, boundary, timeline).run();
}

} // namespace maestro::cost_models
