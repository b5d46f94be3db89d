#include "wavefront/list_schedule.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace maestro::wavefront {

/// The task that is `next` in its station's order.
uint32_t ListScheduler::taskOf(const Station &station, const Lists &order, uint32_t position, TaskKind kind) const {
  return position < station.end ? groups->task(order.items[position], station.stage, kind) : kNone;
}

void ListScheduler::listStations() {
  const std::vector<uint32_t> &offsets = sequences->forward.offsets;
  stations.clear();
  for (size_t i = 0; i < index->stationDevice.size(); ++i) {
    uint32_t stageId = index->stationStage[i], replica = index->stationReplica[i], s = index->sectionOfStage[stageId];
    uint32_t stage = stageId - index->firstStage[s];
    const Section &section = problem->sections[s];
    uint32_t maxDue = kNone;
    for (uint32_t e : index->edgesOut[stageId])
      if (index->edges[e].gradient)
        maxDue = std::min(maxDue, index->edges[e].gradientDepth);
    if (section.splitsBackward && section.stages[stage].weightGradient.terms.empty())
      maxDue = 1; // Nothing that could wait: slots are free at once.
    // Only the last trained section knows how far its loss is.
    bool feeds = std::any_of(index->edges.begin(), index->edges.end(), [&](const EdgeFacts &edge) {
      return edge.producer == s && edge.pair != kNone && edge.gradient;
    });
    uint32_t ahead = feeds || !section.trains ? kNone : static_cast<uint32_t>(section.stages.size()) - stage;
    uint32_t slots = section.stages[stage].slots;
    uint32_t lag = std::min({stage, slots - std::min(slots, ahead), maxDue - 1});
    uint32_t first = offsets[replica], end = offsets[replica + 1];
    Station station{s,     stage, stageId, slots, 0,     first,  end, first,          first,
                    first, kNone, kNone,   kNone, ahead, maxDue, lag, section.trains, section.splitsBackward};
    station.forward = taskOf(station, sequences->forward, first, TaskKind::Forward);
    if (station.trains)
      station.backward = taskOf(station, sequences->backward, first, TaskKind::Backward);
    if (station.splits)
      station.weight = taskOf(station, sequences->backward, first, TaskKind::WeightGradient);
    stations.push_back(station);
  }
}

/// Each with what it waits for on its own station.
void ListScheduler::listTasks() {
  tasks.resize(groups->taskNs.size());
  for (uint32_t g = 0; g < groups->list.size(); ++g) {
    const Section &section = problem->sections[groups->list[g].section];
    uint32_t task = groups->firstTask[g];
    for (uint32_t device : section.devices[groups->list[g].replica])
      for (uint32_t kind = 0; kind < 3; ++kind, ++task)
        tasks[task] = {0, groups->taskNs[task], (*tails)[task], kind > 0, device};
  }
}

/// False where some device has too much work for the limit.
bool ListScheduler::reset() {
  log.clear();
  nowNs = 0;
  hopeless = false;
  leftNs.assign(problem->devices, 0);
  for (uint32_t g = 0; g < groups->list.size(); ++g) {
    const int64_t *ns = groups->taskNs.data() + groups->firstTask[g];
    for (uint32_t device : problem->sections[groups->list[g].section].devices[groups->list[g].replica]) {
      leftNs[device] += ns[0] + ns[1] + ns[2];
      ns += 3;
    }
  }
  if (std::any_of(leftNs.begin(), leftNs.end(), [&](int64_t ns) { return ns >= limitNs; }))
    return false;
  listTasks();
  countPending();
  listStations();
  running.assign(problem->devices, {0, 0, TaskKind::Forward, false});
  next.reset(problem->devices);
  dirty.assign(problem->devices / 64 + 1, 0);
  for (uint32_t device = 0; device < problem->devices; ++device)
    lookAt(device);
  return true;
}

/// Mirrors what end() releases.
void ListScheduler::countPending() {
  for (const EdgeFacts &edge : index->edges) {
    uint32_t sent = 3 * edge.producerStage, received = 3 * edge.consumerStage;
    auto join = [&](uint32_t producer, uint32_t consumer) {
      Task *sender = &tasks[groups->firstTask[producer] + sent],
           *receiver = &tasks[groups->firstTask[consumer] + received];
      ++receiver[0].pending;
      sender[0].pending += sequences->forwardPosition[consumer] >= edge.depth;
      if (!edge.gradient)
        return;
      ++sender[1].pending;
      receiver[1].pending += sequences->backwardPosition[producer] >= edge.gradientDepth;
    };
    uint32_t first = groups->firstOfSection[edge.consumer], last = groups->firstOfSection[edge.consumer + 1];
    for (uint32_t consumer = first; consumer < last; ++consumer)
      if (edge.pair == kNone)
        join(consumer, consumer);
      else
        for (uint32_t producer : groups->producers[edge.pair][consumer - first])
          join(producer, consumer);
  }
}

/// One thing less that the task waits for. A device that is busy looks at all it has when it is done.
void ListScheduler::arrive(uint32_t number, int64_t ns) {
  Task &task = tasks[number];
  task.readyNs = std::max(task.readyNs, ns);
  if (--task.pending != 0 || running[task.device].busy)
    return;
  if (task.readyNs <= nowNs)
    lookAt(task.device);
  else if (task.readyNs < next.at(task.device))
    next.set(task.device, task.readyNs);
}

/// `group` has left its slot of an edge into its station: the one `depth` positions later may be written.
void ListScheduler::release(const EdgeFacts &edge, const Station &station, uint32_t group) {
  size_t position = size_t{station.first} + sequences->forwardPosition[group] + edge.depth;
  if (position >= station.end)
    return;
  uint32_t later = sequences->forward.items[position], offset = 3 * edge.producerStage;
  if (edge.pair == kNone)
    return arrive(groups->firstTask[later] + offset, nowNs);
  for (uint32_t producer : groups->producers[edge.pair][later - groups->firstOfSection[edge.consumer]])
    arrive(groups->firstTask[producer] + offset, nowNs);
}

void ListScheduler::releaseGradient(const EdgeFacts &edge, const Station &station, uint32_t group) {
  size_t position = size_t{station.first} + sequences->backwardPosition[group] + edge.gradientDepth;
  if (position >= station.end)
    return;
  uint32_t later = sequences->backward.items[position], offset = 3 * edge.consumerStage + 1;
  if (edge.pair == kNone)
    return arrive(groups->firstTask[later] + offset, nowNs);
  for (uint32_t consumer : groups->consumers[edge.pair][later - groups->firstOfSection[edge.producer]])
    arrive(groups->firstTask[consumer] + offset, nowNs);
}

void ListScheduler::endForward(const Station &station, uint32_t group) {
  uint32_t i = group - groups->firstOfSection[station.section];
  if (station.trains)
    arrive(groups->task(group, station.stage, TaskKind::Backward), nowNs);
  for (uint32_t e : index->edgesOut[station.stageId]) {
    const EdgeFacts &edge = index->edges[e];
    int64_t ns = nowNs + groups->transfer(e, i);
    uint32_t offset = 3 * edge.consumerStage;
    if (edge.pair == kNone)
      arrive(groups->firstTask[group] + offset, ns);
    else
      for (uint32_t consumer : groups->consumers[edge.pair][i])
        arrive(groups->firstTask[consumer] + offset, ns);
  }
  for (uint32_t e : index->edgesIn[station.stageId])
    if (!index->edges[e].held)
      release(index->edges[e], station, group);
}

void ListScheduler::endBackward(const Station &station, uint32_t group) {
  uint32_t i = group - groups->firstOfSection[station.section];
  for (uint32_t e : index->edgesIn[station.stageId]) {
    const EdgeFacts &edge = index->edges[e];
    if (!edge.gradient)
      continue;
    int64_t ns = nowNs + groups->gradientTransfer(e, i);
    uint32_t offset = 3 * edge.producerStage + 1;
    if (edge.pair == kNone)
      arrive(groups->firstTask[group] + offset, ns);
    else
      for (uint32_t producer : groups->producers[edge.pair][i])
        arrive(groups->firstTask[producer] + offset, ns);
  }
}

/// The group's last task on the station has ended: it leaves the station and what it still held.
void ListScheduler::endLast(Station &station, uint32_t group) {
  --station.inFlight;
  for (uint32_t e : index->edgesIn[station.stageId])
    if (index->edges[e].held)
      release(index->edges[e], station, group);
  for (uint32_t e : index->edgesOut[station.stageId])
    if (index->edges[e].gradient)
      releaseGradient(index->edges[e], station, group);
}

void ListScheduler::end(uint32_t device) {
  Running &task = running[device];
  task.busy = false;
  Station &station = stations[task.station];
  if (task.kind == TaskKind::Forward) {
    endForward(station, task.group);
    station.inFlight -= !station.trains;
  } else if (task.kind == TaskKind::Backward) {
    endBackward(station, task.group);
    if (station.splits)
      arrive(groups->task(task.group, station.stage, TaskKind::WeightGradient), nowNs);
    else
      endLast(station, task.group);
  } else {
    endLast(station, task.group);
  }
}

/// Whether the kind is next under Rule::ZeroBubble: as ZB-H1 has it (Qi et al., arXiv 2401.10241, section 2.1), 1F1B's
/// forward tasks ahead, then backward, weight gradient, forward in turn, where weight gradients lag behind by the
/// stages above. No station then holds more than 1F1B's first, and a backward task never finds its device busy with
/// what could have waited.
bool ListScheduler::turn(const Station &station, TaskKind kind) const {
  if (station.splits && station.nextBackward - station.nextWeight > station.lag)
    return kind == TaskKind::WeightGradient;
  if (station.nextForward < station.end && station.nextForward - station.nextBackward < station.ahead &&
      station.inFlight < station.slots)
    return kind == TaskKind::Forward;
  return kind == (station.nextBackward < station.end ? TaskKind::Backward : TaskKind::WeightGradient);
}

ListScheduler::Turn ListScheduler::priority(TaskKind kind, const Task &task, uint32_t station) const {
  auto turn = [&](int rank, int64_t value) { return Turn{rank, value, station, kind}; };
  if (kind == TaskKind::WeightGradient)
    return turn(stations[station].nextBackward - stations[station].nextWeight >= stations[station].maxDue ? 3 : 0,
                task.tailNs);
  bool forward = kind == TaskKind::Forward;
  switch (rule) {
  case Rule::BackwardFirst:
    return forward ? turn(1, -task.tailNs) : turn(2, task.tailNs);
  case Rule::ShortestFirst:
    return turn(1, -task.ns);
  default:
    return turn(1, task.tailNs);
  }
}

/// Starts the best of the tasks that are next at one of the device's stations and ready.
void ListScheduler::choose(uint32_t device) {
  Turn best;
  int64_t soonest = Tournament::kNever;
  for (uint32_t s : index->deviceStations[device]) {
    const Station &station = stations[s];
    auto consider = [&](uint32_t number, TaskKind kind) {
      if (number == kNone || tasks[number].pending != 0 || (rule == Rule::ZeroBubble && !turn(station, kind)))
        return;
      const Task &task = tasks[number];
      if (task.readyNs > nowNs) {
        soonest = std::min(soonest, task.readyNs);
        return;
      }
      Turn made = priority(kind, task, s);
      if (made.rank > best.rank || (made.rank == best.rank && made.value > best.value))
        best = made;
    };
    consider(station.backward, TaskKind::Backward);
    consider(station.weight, TaskKind::WeightGradient);
    if (station.inFlight < station.slots)
      consider(station.forward, TaskKind::Forward);
  }
  if (best.rank >= 0)
    start(device, best.station, best.kind);
  else if (soonest < next.at(device))
    next.set(device, soonest);
}

void ListScheduler::start(uint32_t device, uint32_t s, TaskKind kind) {
  Station &station = stations[s];
  uint32_t group, number;
  if (kind == TaskKind::Forward) {
    group = sequences->forward.items[station.nextForward++], number = station.forward;
    station.forward = taskOf(station, sequences->forward, station.nextForward, kind);
    ++station.inFlight;
  } else if (kind == TaskKind::Backward) {
    group = sequences->backward.items[station.nextBackward++], number = station.backward;
    station.backward = taskOf(station, sequences->backward, station.nextBackward, kind);
  } else {
    group = sequences->backward.items[station.nextWeight++], number = station.weight;
    station.weight = taskOf(station, sequences->backward, station.nextWeight, kind);
  }
  const Task &task = tasks[number];
  hopeless |= nowNs + leftNs[device] >= limitNs || nowNs + task.tailNs >= limitNs;
  leftNs[device] -= task.ns;
  running[device] = {s, group, kind, true};
  next.set(device, nowNs + task.ns);
  log.push_back({group, static_cast<uint16_t>(station.stage), kind, device, nowNs});
}

/// Everything that ends now has ended before anybody chooses.
void ListScheduler::startAll() {
  for (uint32_t word = 0; word < dirty.size(); ++word)
    for (uint64_t bits = std::exchange(dirty[word], 0); bits != 0; bits &= bits - 1)
      choose(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
}

int64_t ListScheduler::run(const Problem &theProblem, const ProblemIndex &theIndex, const Groups &theGroups,
                           const Sequences &theSequences, const std::vector<int64_t> &theTails, Rule theRule,
                           int64_t limit) {
  problem = &theProblem, index = &theIndex, groups = &theGroups, sequences = &theSequences, tails = &theTails;
  rule = theRule, limitNs = limit;
  if (!reset())
    return tooLong;
  int64_t makespan = 0;
  while (true) {
    startAll();
    if (next.firstTime() == Tournament::kNever)
      break;
    nowNs = next.firstTime();
    if (hopeless || nowNs >= limit)
      return tooLong;
    do {
      uint32_t device = next.first();
      next.set(device, Tournament::kNever);
      lookAt(device);
      if (running[device].busy) {
        end(device);
        makespan = nowNs;
      }
    } while (next.firstTime() == nowNs);
  }
  return log.size() == groups->tasks ? makespan : stuck;
}

} // namespace maestro::wavefront
