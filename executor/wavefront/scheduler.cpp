#include "executor/wavefront/scheduler.h"

#include "executor/wavefront/formation.h"
#include "executor/wavefront/list_schedule.h"
#include "executor/wavefront/lower_bound.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace maestro::wavefront {

struct Scheduler::State {
  ProblemIndex index;
  Groups groups;
  Sequences sequences;
  ListScheduler list;
  std::vector<int64_t> tails, key;
  std::vector<uint32_t> order;
  int64_t bestNs = 0;

  void fileOrder(const Problem &problem, Schedule &schedule);
  bool attempt(const Problem &problem, Schedule &schedule);
  void write(const Problem &problem, int64_t makespan, Schedule &schedule);
};

/// Schedules the groups as they stand, in their order, and keeps the result if it is the best so far. False: stuck.
bool Scheduler::State::attempt(const Problem &problem, Schedule &schedule) {
  key.resize(groups.list.size());
  std::iota(key.begin(), key.end(), int64_t{0});
  sequences.sort(index, groups, key, key);
  computeTails(problem, index, groups, tails);
  int64_t makespan = list.run(problem, index, groups, sequences, tails, Rule(), bestNs);
  if (makespan >= 0 && makespan < bestNs) {
    bestNs = makespan;
    write(problem, makespan, schedule);
  }
  return makespan != ListScheduler::stuck;
}

void Scheduler::State::write(const Problem &problem, int64_t makespan, Schedule &schedule) {
  schedule.samples = groups.samples;
  schedule.dims = groups.dims;
  schedule.microBatches = groups.list;
  schedule.makespanNs = makespan;
  schedule.deviceTasks.assign(problem.devices + 2, 0);
  for (const ListScheduler::Started &task : list.log)
    ++schedule.deviceTasks[task.device + 2];
  for (size_t d = 2; d < schedule.deviceTasks.size(); ++d)
    schedule.deviceTasks[d] += schedule.deviceTasks[d - 1];
  schedule.tasks.resize(list.log.size());
  for (const ListScheduler::Started &task : list.log)
    schedule.tasks[schedule.deviceTasks[task.device + 1]++] = {
        task.group, task.stage, task.kind, task.startNs,
        task.startNs + groups.taskNs[groups.task(task.group, task.stage, task.kind)]};
  schedule.deviceTasks.pop_back();
}

void Scheduler::State::fileOrder(const Problem &problem, Schedule &schedule) {
  groupInOrder(problem, index, order, std::numeric_limits<int64_t>::max(), groups);
  dealInTurn(problem, groups);
  if (attempt(problem, schedule))
    return;
  groupInBlocks(problem, index, order, groups);
  dealInTurn(problem, groups);
  attempt(problem, schedule);
}

Scheduler::Scheduler() : state(std::make_unique<State>()) {}
Scheduler::~Scheduler() = default;

void Scheduler::run(const Problem &problem, Order order, Schedule &schedule) {
  state->index.build(problem);
  state->order.resize(problem.sampleCount());
  std::iota(state->order.begin(), state->order.end(), 0u);
  state->bestNs = std::numeric_limits<int64_t>::max();
  state->fileOrder(problem, schedule);
  schedule.lowerBoundNs = lowerBound(problem);
}

} // namespace maestro::wavefront
