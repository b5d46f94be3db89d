#include "executor/wavefront/list_schedule.h"

#include <algorithm>

namespace maestro::wavefront {

size_t ListScheduler::tasks(const Problem &problem, const Groups &groups) const {
  size_t total = 0;
  for (const MicroBatch &group : groups.list) {
    const Section &section = problem.sections[group.section];
    total += section.stages.size() * (section.splitsBackward ? 3 : section.trains ? 2 : 1);
  }
  return total;
}

void ListScheduler::reset() {
  const std::vector<uint32_t> &forward = sequences->forward.offsets;
  stations.clear();
  for (size_t i = 0; i < index->stationDevice.size(); ++i) {
    uint32_t place = index->stationPlace[i], replica = index->stationReplica[i], section = index->sectionOfPlace[place];
    uint32_t stage = place - index->firstPlace[section];
    uint32_t mostDue = none;
    for (uint32_t e : index->edgesOut[place])
      if (index->edges[e].gradient)
        mostDue = std::min(mostDue, index->edges[e].gradientDepth);
    // Only the last trained section knows how far its loss is.
    bool feeds = std::any_of(index->edges.begin(), index->edges.end(), [&](const EdgeFacts &edge) {
      return edge.producer == section && edge.pair != none && edge.gradient;
    });
    uint32_t ahead = feeds || !problem->sections[section].trains
                         ? none
                         : static_cast<uint32_t>(problem->sections[section].stages.size()) - stage;
    uint32_t slots = problem->sections[section].stages[stage].slots;
    uint32_t lag = std::min({stage, slots - std::min(slots, ahead), mostDue - 1});
    stations.push_back({section, stage, replica, slots, forward[replica], forward[replica], forward[replica], forward[replica + 1],
                        forward[replica + 1], 0, ahead, problem->sections[section].trains,
                        problem->sections[section].splitsBackward, TaskKind::Backward, mostDue, lag});
  }
  pending.assign(groups->taskNs.size(), 0);
  readyNs.assign(groups->taskNs.size(), 0);
  running.assign(problem->devices, {0, 0, TaskKind::Forward, false});
  freeNs.assign(problem->devices, 0);
  leftNs.assign(problem->devices, 0);
  for (uint32_t g = 0; g < groups->list.size(); ++g) {
    const std::vector<uint32_t> &devices = problem->sections[groups->list[g].section].devices[groups->list[g].replica];
    const int64_t *ns = groups->taskNs.data() + groups->firstTask[g];
    for (size_t stage = 0; stage < devices.size(); ++stage)
      leftNs[devices[stage]] += ns[3 * stage] + ns[3 * stage + 1] + ns[3 * stage + 2];
  }
  isDirty.assign(problem->devices, 1);
  dirty.resize(problem->devices);
  for (uint32_t d = 0; d < problem->devices; ++d)
    dirty[d] = d;
  events.clear();
  log.clear();
}

/// Mirrors what end() releases.
void ListScheduler::countPending() {
  for (uint32_t g = 0; g < groups->list.size(); ++g) {
    uint32_t s = groups->list[g].section;
    const Section &section = problem->sections[s];
    if (!section.trains)
      continue;
    for (uint32_t stage = 0; stage < section.stages.size(); ++stage) {
      pending[groups->task(g, stage, TaskKind::Backward)] = 1;
      if (section.splitsBackward)
        pending[groups->task(g, stage, TaskKind::WeightGradient)] = 1;
    }
  }
  for (const Forced &order : forced)
    ++pending[groups->task(order.after, order.afterStage, order.afterKind)];
  for (const EdgeFacts &edge : index->edges) {
    auto join = [&](uint32_t producer, uint32_t consumer) {
      ++pending[groups->task(consumer, edge.consumerStage, TaskKind::Forward)];
      if (sequences->forwardPosition[consumer] >= edge.depth)
        ++pending[groups->task(producer, edge.producerStage, TaskKind::Forward)];
      if (!edge.gradient)
        return;
      ++pending[groups->task(producer, edge.producerStage, TaskKind::Backward)];
      if (sequences->backwardPosition[producer] >= edge.gradientDepth)
        ++pending[groups->task(consumer, edge.consumerStage, TaskKind::Backward)];
    };
    uint32_t first = groups->firstOfSection[edge.consumer], last = groups->firstOfSection[edge.consumer + 1];
    for (uint32_t consumer = first; consumer < last; ++consumer)
      if (edge.pair == none)
        join(consumer, consumer);
      else
        for (uint32_t producer : groups->producers[edge.pair][consumer - first])
          join(producer, consumer);
  }
}

void ListScheduler::wake(uint32_t device, int64_t ns) {
  if (ns > nowNs) {
    if (running[device].busy && freeNs[device] >= ns)
      return; // Its end looks at the device anyway.
    events.push_back({ns, problem->devices + device});
    std::push_heap(events.begin(), events.end());
  } else if (!isDirty[device]) {
    isDirty[device] = 1;
    dirty.push_back(device);
  }
}

void ListScheduler::arrive(uint32_t group, uint32_t section, uint32_t stage, TaskKind kind, int64_t ns) {
  uint32_t task = groups->task(group, stage, kind);
  readyNs[task] = std::max(readyNs[task], ns);
  if (--pending[task] == 0)
    wake(index->stationDevice[index->station(*problem, section, groups->list[group].replica, stage)], readyNs[task]);
}

/// `group` has left its slot of an edge into it: the one `depth` places later may be written.
void ListScheduler::release(uint32_t e, uint32_t group, int64_t ns) {
  const EdgeFacts &edge = index->edges[e];
  std::span<const uint32_t> order = sequences->forward[index->replica(edge.consumer, groups->list[group].replica)];
  size_t position = size_t{sequences->forwardPosition[group]} + edge.depth;
  if (position >= order.size())
    return;
  uint32_t next = order[position];
  if (edge.pair == none)
    return arrive(next, edge.producer, edge.producerStage, TaskKind::Forward, ns);
  for (uint32_t producer : groups->producers[edge.pair][next - groups->firstOfSection[edge.consumer]])
    arrive(producer, edge.producer, edge.producerStage, TaskKind::Forward, ns);
}

void ListScheduler::releaseGradient(uint32_t e, uint32_t group, int64_t ns) {
  const EdgeFacts &edge = index->edges[e];
  std::span<const uint32_t> order = sequences->backward[index->replica(edge.producer, groups->list[group].replica)];
  size_t position = size_t{sequences->backwardPosition[group]} + edge.gradientDepth;
  if (position >= order.size())
    return;
  uint32_t next = order[position];
  if (edge.pair == none)
    return arrive(next, edge.consumer, edge.consumerStage, TaskKind::Backward, ns);
  for (uint32_t consumer : groups->consumers[edge.pair][next - groups->firstOfSection[edge.producer]])
    arrive(consumer, edge.consumer, edge.consumerStage, TaskKind::Backward, ns);
}

void ListScheduler::endForward(const Station &station, uint32_t group) {
  uint32_t place = index->place(station.section, station.stage), i = group - groups->firstOfSection[station.section];
  if (problem->sections[station.section].trains)
    arrive(group, station.section, station.stage, TaskKind::Backward, nowNs);
  for (uint32_t e : index->edgesOut[place]) {
    const EdgeFacts &edge = index->edges[e];
    int64_t ns = nowNs + groups->transfer(e, i);
    if (edge.pair == none)
      arrive(group, edge.consumer, edge.consumerStage, TaskKind::Forward, ns);
    else
      for (uint32_t consumer : groups->consumers[edge.pair][i])
        arrive(consumer, edge.consumer, edge.consumerStage, TaskKind::Forward, ns);
  }
  for (uint32_t e : index->edgesIn[place])
    if (!index->edges[e].held)
      release(e, group, nowNs);
}

void ListScheduler::endBackward(const Station &station, uint32_t group) {
  uint32_t place = index->place(station.section, station.stage), i = group - groups->firstOfSection[station.section];
  for (uint32_t e : index->edgesIn[place]) {
    const EdgeFacts &edge = index->edges[e];
    if (!edge.gradient)
      continue;
    int64_t ns = nowNs + groups->gradientTransfer(e, i);
    if (edge.pair == none)
      arrive(group, edge.producer, edge.producerStage, TaskKind::Backward, ns);
    else
      for (uint32_t producer : groups->producers[edge.pair][i])
        arrive(producer, edge.producer, edge.producerStage, TaskKind::Backward, ns);
  }
}

/// The group's last task on the station has ended: it leaves the station and what it still held.
void ListScheduler::endLast(Station &station, uint32_t group) {
  uint32_t place = index->place(station.section, station.stage);
  --station.inFlight;
  for (uint32_t e : index->edgesIn[place])
    if (index->edges[e].held)
      release(e, group, nowNs);
  for (uint32_t e : index->edgesOut[place])
    if (index->edges[e].gradient)
      releaseGradient(e, group, nowNs);
}

void ListScheduler::end(uint32_t device) {
  Running &task = running[device];
  task.busy = false;
  Station &station = stations[task.station];
  const Section &section = problem->sections[station.section];
  wake(device, nowNs);
  for (const Forced &order : forced)
    if (order.before == task.group && order.beforeStage == station.stage && order.beforeKind == task.kind)
      arrive(order.after, groups->list[order.after].section, order.afterStage, order.afterKind, nowNs);
  if (task.kind == TaskKind::Forward) {
    endForward(station, task.group);
    if (!section.trains)
      --station.inFlight;
  } else if (task.kind == TaskKind::Backward) {
    endBackward(station, task.group);
    if (section.splitsBackward)
      arrive(task.group, station.section, station.stage, TaskKind::WeightGradient, nowNs);
    else
      endLast(station, task.group);
  } else {
    endLast(station, task.group);
  }
}

/// Whether the kind is next under Rule::ZeroBubble: as ZB-H1 has it (Qi et al., arXiv 2401.10241, section 2.1), 1F1B's forward
/// tasks ahead, then backward, weight gradient, forward in turn, where weight gradients lag behind by the stages above. No
/// station then holds more than 1F1B's first, and a backward task never finds its device busy with what could have waited.
bool ListScheduler::turn(const Station &station, TaskKind kind) const {
  if (station.splits && station.nextBackward - station.nextWeight > station.lag)
    return kind == TaskKind::WeightGradient;
  if (station.nextForward < station.endForward && station.nextForward - station.nextBackward < station.ahead &&
      station.inFlight < station.slots)
    return kind == TaskKind::Forward;
  return kind == (station.nextBackward < station.end ? TaskKind::Backward : TaskKind::WeightGradient);
}

/// A class, and within it a value; the highest goes first.
std::pair<int, int64_t> ListScheduler::priority(TaskKind kind, int64_t tailNs, int64_t ns, uint32_t station) const {
  if (kind == TaskKind::WeightGradient)
    return {stations[station].nextBackward - stations[station].nextWeight >= stations[station].mostDue ? 3 : 0, tailNs};
  bool forward = kind == TaskKind::Forward;
  switch (rule) {
  case Rule::BackwardFirst:
    return forward ? std::pair(1, -tailNs) : std::pair(2, tailNs);
  case Rule::ForwardFirst:
    return forward ? std::pair(2, tailNs) : std::pair(1, -tailNs);
  case Rule::Alternate:
  case Rule::Thrifty:
    return {stations[station].last == kind ? 1 : 2, tailNs};
  case Rule::ShortestFirst:
    return {1, -ns};
  case Rule::UpstreamFirst:
    return forward ? std::pair(1, -int64_t{station}) : std::pair(2, tailNs);
  default:
    return {1, tailNs};
  }
}

/// Starts the best of the tasks that are next at one of the device's stations and ready.
void ListScheduler::start(uint32_t device) {
  uint32_t best = none, bestGroup = none;
  TaskKind bestKind = TaskKind::Forward;
  int64_t bestTail = 0;
  int bestClass = -1;
  for (uint32_t s : index->deviceStations[device]) {
    const Station &station = stations[s];
    auto consider = [&](const Lists &order, uint32_t next, TaskKind kind) {
      if (next >= station.end)
        return;
      if (rule == Rule::ZeroBubble && !turn(station, kind))
        return;
      uint32_t group = order.items[next], task = groups->task(group, station.stage, kind);
      if (pending[task] != 0 || readyNs[task] > nowNs)
        return;
      auto [rank, value] = priority(kind, (*tails)[task], groups->taskNs[task], s);
      if (rank > bestClass || (rank == bestClass && value > bestTail)) {
        best = s, bestGroup = group, bestKind = kind, bestTail = value, bestClass = rank;
      }
    };
    if (station.trains)
      consider(sequences->backward, station.nextBackward, TaskKind::Backward);
    if (station.splits)
      consider(sequences->backward, station.nextWeight, TaskKind::WeightGradient);
    bool mayStart = station.inFlight < station.slots;
    if (rule == Rule::Thrifty)
      mayStart &= station.nextForward - station.nextBackward < station.ahead;
    if (mayStart)
      consider(sequences->forward, station.nextForward, TaskKind::Forward);
  }
  if (best == none)
    return;
  Station &station = stations[best];
  if (bestKind == TaskKind::Forward) {
    ++station.nextForward;
    ++station.inFlight;
  } else {
    ++(bestKind == TaskKind::Backward ? station.nextBackward : station.nextWeight);
  }
  if (bestKind != TaskKind::WeightGradient)
    station.last = bestKind;
  uint32_t task = groups->task(bestGroup, station.stage, bestKind);
  hopeless |= nowNs + leftNs[device] >= limitNs || nowNs + (*tails)[task] >= limitNs;
  leftNs[device] -= groups->taskNs[task];
  freeNs[device] = nowNs + groups->taskNs[task];
  running[device] = {best, bestGroup, bestKind, true};
  log.push_back({bestGroup, static_cast<uint16_t>(station.stage), bestKind, device, nowNs});
  events.push_back({freeNs[device], device});
  std::push_heap(events.begin(), events.end());
}

int64_t ListScheduler::run(const Problem &theProblem, const ProblemIndex &theIndex, const Groups &theGroups,
                           const Sequences &theSequences, const std::vector<int64_t> &theTails, Rule theRule,
                           int64_t limit) {
  problem = &theProblem, index = &theIndex, groups = &theGroups, sequences = &theSequences, tails = &theTails;
  rule = theRule;
  nowNs = 0;
  limitNs = limit;
  hopeless = false;
  int64_t makespan = 0;
  size_t total = tasks(theProblem, theGroups);
  reset();
  countPending();
  while (true) {
    // Everything that ends now has ended before anybody chooses.
    std::sort(dirty.begin(), dirty.end());
    for (size_t i = 0; i < dirty.size(); ++i) {
      isDirty[dirty[i]] = 0;
      if (!running[dirty[i]].busy)
        start(dirty[i]);
    }
    dirty.clear();
    if (events.empty())
      break;
    nowNs = events.front().ns;
    if (hopeless || nowNs >= limit)
      return tooLong;
    while (!events.empty() && events.front().ns == nowNs) {
      uint32_t what = events.front().what;
      std::pop_heap(events.begin(), events.end());
      events.pop_back();
      if (what < problem->devices) {
        end(what);
        makespan = nowNs;
      } else {
        wake(what - problem->devices, nowNs);
      }
    }
  }
  return log.size() == total ? makespan : stuck;
}

} // namespace maestro::wavefront
