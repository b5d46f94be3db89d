// The rules of README.md, one function each. Written from the rules and nothing else: it shares no code with the
// scheduler but the costs' evaluation, so that a mistake there cannot hide here.
#include "executor/wavefront/schedule.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

constexpr uint32_t absent = UINT32_MAX;

class Verifier {
public:
  Verifier(const Problem &problem, const Schedule &schedule) : problem(problem), schedule(schedule) {}

  Status run() {
    MAESTRO_TRY(checkShape());
    MAESTRO_TRY(checkMicroBatches());
    MAESTRO_TRY(checkCoverage());
    MAESTRO_TRY(checkTasks());
    MAESTRO_TRY(checkDevices());
    MAESTRO_TRY(checkSlots());
    collectOrders();
    MAESTRO_TRY(checkPrecedences());
    MAESTRO_TRY(checkNoCycle());
    return checkTotals();
  }

private:
  std::string name(uint32_t group) const {
    const MicroBatch &batch = schedule.microBatches[group];
    return "micro-batch " + std::to_string(group) + " of " + problem.sections[batch.section].name;
  }
  std::string name(const Task &task) const {
    static const char *kinds[] = {"forward", "backward", "weight gradient"};
    return std::string(kinds[static_cast<int>(task.kind)]) + " of " + name(task.microBatch) + ", stage " +
           std::to_string(task.stage);
  }
  static Status broken(std::string what) { return Status::internal("schedule: " + std::move(what)); }

  uint32_t kinds(const Section &section) const { return section.splitsBackward ? 3 : section.trains ? 2 : 1; }
  uint32_t &taskOf(uint32_t group, uint32_t stage, TaskKind kind) {
    return taskIndex[firstTask[group] + stage * 3 + static_cast<uint32_t>(kind)];
  }

  Status checkShape();
  Status checkMicroBatches();
  Status checkCoverage();
  Status checkTasks();
  Status checkDevices();
  Status checkSlots();
  void collectOrders();
  Status checkPrecedences();
  Status checkNoCycle();
  Status checkTotals();
  template <typename Visit> void forEachBefore(const Task &task, Visit visit);
  const std::vector<uint32_t> &orderAt(bool backward, uint32_t section, uint32_t replica, uint32_t stage) const {
    return orders[backward][firstStation[section] + replica * problem.sections[section].stages.size() + stage];
  }

  const Problem &problem;
  const Schedule &schedule;
  std::vector<std::vector<uint32_t>> groupOf;     ///< By section and sample.
  std::vector<uint32_t> firstTask, taskIndex;     ///< By group; by group, stage and kind: into schedule.tasks.
  std::vector<size_t> firstStation;               ///< By section.
  size_t stations = 0;
  std::vector<std::vector<uint32_t>> orders[2];   ///< Forward and backward, by station: groups.
  std::vector<std::vector<uint32_t>> position[2]; ///< Forward and backward, by group and stage.
};

Status Verifier::checkShape() {
  if (schedule.deviceTasks.size() != size_t{problem.devices} + 1 || schedule.deviceTasks.front() != 0 ||
      schedule.deviceTasks.back() != schedule.tasks.size() ||
      !std::is_sorted(schedule.deviceTasks.begin(), schedule.deviceTasks.end()))
    return broken("the devices' lists of tasks do not cover the tasks");
  if (schedule.dims.size() != schedule.microBatches.size() * problem.dims.size())
    return broken("combined dims are not one set a micro-batch");
  uint32_t section = 0;
  for (size_t g = 0; g < schedule.microBatches.size(); ++g) {
    const MicroBatch &batch = schedule.microBatches[g];
    if (batch.section >= problem.sections.size() || batch.section < section)
      return broken("micro-batch " + std::to_string(g) + " is not in the order of the sections");
    section = batch.section;
    if (batch.replica >= problem.sections[section].devices.size())
      return broken(name(static_cast<uint32_t>(g)) + " is on replica " + std::to_string(batch.replica) + " of " +
                    std::to_string(problem.sections[section].devices.size()));
    if (uint64_t{batch.firstSample} + batch.samples > schedule.samples.size() || batch.samples == 0 ||
        uint64_t{batch.firstDim} + problem.dims.size() > schedule.dims.size())
      return broken(name(static_cast<uint32_t>(g)) + " has no samples, or samples or dims out of range");
  }
  return Status();
}

/// Rule 2.
Status Verifier::checkMicroBatches() {
  for (uint32_t g = 0; g < schedule.microBatches.size(); ++g) {
    const MicroBatch &batch = schedule.microBatches[g];
    const Section &section = problem.sections[batch.section];
    if (static_cast<int64_t>(batch.samples) > section.maxSamples)
      return broken(name(g) + " holds " + std::to_string(batch.samples) + " samples; its capacity is " +
                    std::to_string(section.maxSamples));
    for (uint32_t sample : schedule.samplesOf(batch))
      if (sample >= problem.sampleCount())
        return broken(name(g) + " holds sample " + std::to_string(sample) + " of " + std::to_string(problem.sampleCount()));
    for (size_t d = 0; d < problem.dims.size(); ++d) {
      int64_t value = 0;
      bool agree = true;
      for (uint32_t sample : schedule.samplesOf(batch)) {
        int64_t own = problem.sizes[sample * problem.dims.size() + d];
        agree &= value == 0 || own == 0 || value == own;
        value = combineLargest(problem.dims[d], value, own);
      }
      if (!agree && isUnpadded(section, static_cast<uint32_t>(d)))
        return broken(name(g) + " holds samples of different " + problem.dims[d].name + ", which must not be padded");
      if (value != schedule.dims[batch.firstDim + d])
        return broken(name(g) + " has " + problem.dims[d].name + " = " + std::to_string(value) + ", and the schedule says " +
                      std::to_string(schedule.dims[batch.firstDim + d]));
      if (value > section.capacity[d])
        return broken(name(g) + " has " + problem.dims[d].name + " = " + std::to_string(value) + "; its capacity is " +
                      std::to_string(section.capacity[d]));
    }
    for (const Area &area : section.areas) {
      int64_t rows = schedule.dims[batch.firstDim + area.rows], padded = schedule.dims[batch.firstDim + area.padded], tokens = 0;
      if (__builtin_mul_overflow(rows, padded, &tokens) || tokens > area.capacity)
        return broken(name(g) + " has " + problem.dims[area.rows].name + " = " + std::to_string(rows) + " times " +
                      problem.dims[area.padded].name + " = " + std::to_string(padded) + ": " + std::to_string(tokens) +
                      " padded tokens; its capacity is " + std::to_string(area.capacity));
    }
  }
  return Status();
}

/// Rule 1.
Status Verifier::checkCoverage() {
  groupOf.assign(problem.sections.size(), std::vector<uint32_t>(problem.sampleCount(), absent));
  for (uint32_t g = 0; g < schedule.microBatches.size(); ++g) {
    const MicroBatch &batch = schedule.microBatches[g];
    for (uint32_t sample : schedule.samplesOf(batch)) {
      uint32_t &group = groupOf[batch.section][sample];
      if (group != absent)
        return broken("sample " + std::to_string(sample) + " is in " + name(group) + " and in " + name(g));
      group = g;
    }
  }
  for (size_t s = 0; s < problem.sections.size(); ++s)
    for (size_t sample = 0; sample < problem.sampleCount(); ++sample) {
      bool active = takesPart(problem.sections[s], problem.sizes.data() + sample * problem.dims.size());
      if (active != (groupOf[s][sample] != absent))
        return broken("sample " + std::to_string(sample) + (active ? " is missing in " : " takes no part in ") +
                      problem.sections[s].name);
    }
  return Status();
}

/// Every task once, where its station is, for as long as it costs.
Status Verifier::checkTasks() {
  uint32_t total = 0, expected = 0;
  for (const MicroBatch &batch : schedule.microBatches) {
    const Section &section = problem.sections[batch.section];
    firstTask.push_back(total);
    total += static_cast<uint32_t>(section.stages.size()) * 3;
    expected += static_cast<uint32_t>(section.stages.size()) * kinds(section);
  }
  taskIndex.assign(total, absent);
  for (uint32_t device = 0; device < problem.devices; ++device)
    for (uint32_t i = schedule.deviceTasks[device]; i < schedule.deviceTasks[device + 1]; ++i) {
      const Task &task = schedule.tasks[i];
      if (task.microBatch >= schedule.microBatches.size())
        return broken("task " + std::to_string(i) + " is of micro-batch " + std::to_string(task.microBatch) + " of " +
                      std::to_string(schedule.microBatches.size()));
      const MicroBatch &batch = schedule.microBatches[task.microBatch];
      const Section &section = problem.sections[batch.section];
      if (task.stage >= section.stages.size() || static_cast<uint32_t>(task.kind) >= kinds(section))
        return broken("task " + std::to_string(i) + " of " + name(task.microBatch) + " is of a stage or kind that it lacks");
      if (section.devices[batch.replica][task.stage] != device)
        return broken(name(task) + " is on device " + std::to_string(device) + ", its station on " +
                      std::to_string(section.devices[batch.replica][task.stage]));
      if (taskOf(task.microBatch, task.stage, task.kind) != absent)
        return broken(name(task) + " is there twice");
      taskOf(task.microBatch, task.stage, task.kind) = i;
      const Stage &stage = section.stages[task.stage];
      const Cost &cost = task.kind == TaskKind::Forward    ? stage.forward
                         : task.kind == TaskKind::Backward ? stage.backward
                                                           : stage.weightGradient;
      if (task.startNs < 0 || task.endNs - task.startNs != evaluate(cost, schedule.dims.data() + batch.firstDim))
        return broken(name(task) + " is planned from " + std::to_string(task.startNs) + " to " + std::to_string(task.endNs) +
                      ", and takes " + std::to_string(evaluate(cost, schedule.dims.data() + batch.firstDim)));
    }
  if (schedule.tasks.size() != expected)
    return broken("has " + std::to_string(schedule.tasks.size()) + " of " + std::to_string(expected) + " tasks");
  return Status();
}

/// Rule 3, first sentence.
Status Verifier::checkDevices() {
  for (uint32_t device = 0; device < problem.devices; ++device) {
    std::span<const Task> tasks = schedule.tasksOf(device);
    for (size_t i = 1; i < tasks.size(); ++i)
      if (tasks[i].startNs < tasks[i - 1].endNs)
        return broken(name(tasks[i]) + " starts before " + name(tasks[i - 1]) + " ends on device " + std::to_string(device));
  }
  return Status();
}

/// Rule 4: a station's tasks are all on one device, so that the order alone decides.
Status Verifier::checkSlots() {
  for (const Section &section : problem.sections) {
    firstStation.push_back(stations);
    stations += section.devices.size() * section.stages.size();
  }
  std::vector<uint32_t> inFlight(stations, 0);
  for (const Task &task : schedule.tasks) {
    const MicroBatch &batch = schedule.microBatches[task.microBatch];
    const Section &section = problem.sections[batch.section];
    uint32_t &count = inFlight[firstStation[batch.section] + batch.replica * section.stages.size() + task.stage];
    if (task.kind == TaskKind::Forward && ++count > section.stages[task.stage].slots)
      return broken(name(task) + " starts with " + std::to_string(count - 1) + " micro-batches in flight; slots: " +
                    std::to_string(section.stages[task.stage].slots));
    if (static_cast<uint32_t>(task.kind) + 1 == kinds(section))
      --count;
  }
  return Status();
}

void Verifier::collectOrders() {
  for (int backward = 0; backward < 2; ++backward) {
    orders[backward].assign(stations, {});
    position[backward].resize(schedule.microBatches.size());
    for (size_t g = 0; g < schedule.microBatches.size(); ++g)
      position[backward][g].assign(problem.sections[schedule.microBatches[g].section].stages.size(), 0);
  }
  for (const Task &task : schedule.tasks) {
    if (task.kind == TaskKind::WeightGradient)
      continue;
    int backward = task.kind == TaskKind::Backward;
    const MicroBatch &batch = schedule.microBatches[task.microBatch];
    const Section &section = problem.sections[batch.section];
    auto &order = orders[backward][firstStation[batch.section] + batch.replica * section.stages.size() + task.stage];
    position[backward][task.microBatch][task.stage] = static_cast<uint32_t>(order.size());
    order.push_back(task.microBatch);
  }
}

/// Visits each task that must end before `task` starts, with the time between them (rule 3 and rule 5).
template <typename Visit> void Verifier::forEachBefore(const Task &task, Visit visit) {
  const MicroBatch &batch = schedule.microBatches[task.microBatch];
  const int64_t *dims = schedule.dims.data();
  auto lastKind = [&](uint32_t section) { return static_cast<TaskKind>(kinds(problem.sections[section]) - 1); };
  // The micro-batches of another section, or the same one, that share a sample with this one; once a sample.
  auto forEachPartner = [&](uint32_t section, auto partner) {
    if (section == batch.section)
      return partner(task.microBatch);
    uint32_t last = absent;
    for (uint32_t sample : schedule.samplesOf(batch)) {
      uint32_t group = groupOf[section][sample];
      if (group != absent && group != last)
        partner(group);
      last = group;
    }
  };
  if (task.kind != TaskKind::Forward) {
    visit(taskOf(task.microBatch, task.stage, TaskKind::Forward), 0);
    if (task.kind == TaskKind::WeightGradient)
      return visit(taskOf(task.microBatch, task.stage, TaskKind::Backward), 0);
  }
  for (const Edge &edge : problem.edges) {
    bool fromHere = edge.producer == batch.section && edge.producerStage == task.stage;
    bool toHere = edge.consumer == batch.section && edge.consumerStage == task.stage;
    if (task.kind == TaskKind::Forward && toHere)
      forEachPartner(edge.producer, [&](uint32_t producer) {
        visit(taskOf(producer, edge.producerStage, TaskKind::Forward),
              evaluate(edge.transfer, dims + schedule.microBatches[producer].firstDim));
      });
    if (task.kind == TaskKind::Forward && fromHere)
      forEachPartner(edge.consumer, [&](uint32_t consumer) {
        uint32_t place = position[0][consumer][edge.consumerStage];
        if (place < edge.depth)
          return;
        uint32_t before = orderAt(false, edge.consumer, schedule.microBatches[consumer].replica,
                                  edge.consumerStage)[place - edge.depth];
        visit(taskOf(before, edge.consumerStage, edge.heldUntilBackward ? lastKind(edge.consumer) : TaskKind::Forward), 0);
      });
    if (task.kind == TaskKind::Backward && edge.gradient && fromHere)
      forEachPartner(edge.consumer, [&](uint32_t consumer) {
        visit(taskOf(consumer, edge.consumerStage, TaskKind::Backward),
              evaluate(edge.gradientTransfer, dims + schedule.microBatches[consumer].firstDim));
      });
    if (task.kind == TaskKind::Backward && edge.gradient && toHere)
      forEachPartner(edge.producer, [&](uint32_t producer) {
        uint32_t place = position[1][producer][edge.producerStage];
        if (place < edge.gradientDepth)
          return;
        uint32_t before = orderAt(true, edge.producer, schedule.microBatches[producer].replica,
                                  edge.producerStage)[place - edge.gradientDepth];
        visit(taskOf(before, edge.producerStage, lastKind(edge.producer)), 0);
      });
  }
}

Status Verifier::checkPrecedences() {
  for (const Task &task : schedule.tasks) {
    Status failure;
    forEachBefore(task, [&](uint32_t before, int64_t lagNs) {
      if (failure.isOk() && schedule.tasks[before].endNs + lagNs > task.startNs)
        failure = broken(name(task) + " starts at " + std::to_string(task.startNs) + "; " + name(schedule.tasks[before]) +
                         " ends at " + std::to_string(schedule.tasks[before].endNs) + ", and " + std::to_string(lagNs) +
                         " ns must pass");
    });
    MAESTRO_TRY(std::move(failure));
  }
  return Status();
}

/// Times alone could hide a circle of tasks that take no time.
Status Verifier::checkNoCycle() {
  size_t count = schedule.tasks.size();
  std::vector<uint32_t> waiting(count, 0), firstAfter(count + 2, 0), after, ready;
  auto forEachArc = [&](auto arc) {
    for (uint32_t device = 0; device < problem.devices; ++device)
      for (uint32_t i = schedule.deviceTasks[device]; i < schedule.deviceTasks[device + 1]; ++i) {
        if (i > schedule.deviceTasks[device])
          arc(i - 1, i);
        forEachBefore(schedule.tasks[i], [&](uint32_t before, int64_t) { arc(before, i); });
      }
  };
  forEachArc([&](uint32_t before, uint32_t task) {
    ++waiting[task];
    ++firstAfter[before + 2];
  });
  for (size_t i = 2; i < firstAfter.size(); ++i)
    firstAfter[i] += firstAfter[i - 1];
  after.resize(firstAfter.back());
  forEachArc([&](uint32_t before, uint32_t task) { after[firstAfter[before + 1]++] = task; });
  for (uint32_t i = 0; i < count; ++i)
    if (waiting[i] == 0)
      ready.push_back(i);
  for (size_t next = 0; next < ready.size(); ++next)
    for (uint32_t i = firstAfter[ready[next]]; i < firstAfter[ready[next] + 1]; ++i)
      if (--waiting[after[i]] == 0)
        ready.push_back(after[i]);
  if (ready.size() == count)
    return Status();
  size_t stuck = static_cast<size_t>(std::find_if(waiting.begin(), waiting.end(), [](uint32_t w) { return w > 0; }) -
                                     waiting.begin());
  return broken(name(schedule.tasks[stuck]) + " waits for itself: the order would deadlock");
}

Status Verifier::checkTotals() {
  int64_t end = 0;
  for (const Task &task : schedule.tasks)
    end = std::max(end, task.endNs);
  if (end != schedule.makespanNs)
    return broken("ends at " + std::to_string(end) + ", and says " + std::to_string(schedule.makespanNs));
  if (schedule.lowerBoundNs > end)
    return broken("is shorter (" + std::to_string(end) + " ns) than its lower bound of " +
                  std::to_string(schedule.lowerBoundNs));
  return Status();
}

} // namespace

Status verify(const Problem &problem, const Schedule &schedule) { return Verifier(problem, schedule).run(); }

} // namespace maestro::wavefront
