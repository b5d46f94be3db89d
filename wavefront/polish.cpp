#include "wavefront/polish.h"

#include <algorithm>

namespace maestro::wavefront {

uint64_t Polisher::next(uint64_t bound) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 11) % bound;
}

void Polisher::load(const Problem &problem, const Schedule &schedule) {
  sampleCount = problem.sampleCount();
  drafts.clear();
  draftOf.assign(problem.sections.size() * sampleCount, none);
  places.clear();
  for (uint32_t g = 0; g < schedule.microBatches.size(); ++g) {
    const MicroBatch &group = schedule.microBatches[g];
    constexpr int64_t noTask = INT64_MAX / 2; // Changes add to keys.
    drafts.push_back({group.section, group.replica, noTask, noTask, group.samples});
    for (uint32_t sample : schedule.samplesOf(group)) {
      draftOf[group.section * sampleCount + sample] = g;
      places.push_back(static_cast<uint32_t>(group.section * sampleCount + sample));
    }
  }
  for (const Task &task : schedule.tasks) {
    Draft &draft = drafts[task.microBatch];
    int64_t &key = task.kind == TaskKind::Forward ? draft.forwardKey : draft.backwardKey;
    if (task.kind != TaskKind::WeightGradient)
      key = std::min(key, task.startNs);
  }
  reversed.clear();
  for (uint32_t device = 0; device < problem.devices; ++device) {
    std::span<const Task> tasks = schedule.tasksOf(device);
    for (size_t i = 1; i < tasks.size(); ++i)
      if (tasks[i].microBatch != tasks[i - 1].microBatch)
        reversed.push_back({tasks[i].microBatch, tasks[i - 1].microBatch, tasks[i].stage, tasks[i - 1].stage,
                            tasks[i].kind, tasks[i - 1].kind});
  }
  rule = bestRule;
  draftForced = bestForced;
}

void Polisher::keep() {
  bestRule = rule;
  bestForced = forced;
}

/// Orders are of one device; a replica's change may have moved one of the two.
bool Polisher::sharesDevice(const Problem &problem, const ListScheduler::Forced &order) const {
  const Draft &before = drafts[order.before], &after = drafts[order.after];
  return problem.sections[before.section].devices[before.replica][order.beforeStage] ==
         problem.sections[after.section].devices[after.replica][order.afterStage];
}

/// A task before the one that it follows so far, or one such order less.
bool Polisher::force(const Problem &problem) {
  constexpr size_t most = 6;
  if (!draftForced.empty() && (draftForced.size() == most || next(3) == 0)) {
    draftForced.erase(draftForced.begin() + static_cast<int64_t>(next(draftForced.size())));
    return true;
  }
  if (reversed.empty())
    return false;
  const ListScheduler::Forced &made = reversed[next(reversed.size())];
  if (!sharesDevice(problem, made))
    return false;
  draftForced.push_back(made);
  return true;
}

/// Another group of the same section, itself if there is none.
uint32_t Polisher::otherGroup(uint32_t draft) {
  uint32_t from = static_cast<uint32_t>(next(drafts.size()));
  for (size_t i = 0; i < drafts.size(); ++i) {
    uint32_t other = static_cast<uint32_t>((from + i) % drafts.size());
    if (other != draft && drafts[other].section == drafts[draft].section && drafts[other].samples > 0)
      return other;
  }
  return draft;
}

void Polisher::moveSample(uint32_t section, uint32_t sample, uint32_t draft) {
  uint32_t &holder = draftOf[section * sampleCount + sample];
  --drafts[holder].samples;
  ++drafts[draft].samples;
  holder = draft;
}

/// Each of two samples in the other's place, wherever both are.
bool Polisher::exchange(const Problem &problem, uint32_t sample, uint32_t other) {
  for (size_t s = 0; s < problem.sections.size(); ++s) {
    uint32_t &here = draftOf[s * sampleCount + sample], &there = draftOf[s * sampleCount + other];
    if (here != none && there != none)
      std::swap(here, there);
  }
  return sample != other;
}

bool Polisher::mutate(const Problem &problem) {
  if (places.empty())
    return false;
  uint32_t place = places[next(places.size())], draft = draftOf[place], section = drafts[draft].section;
  uint32_t sample = static_cast<uint32_t>(place - section * sampleCount);
  uint32_t other = otherGroup(draft), replicas = static_cast<uint32_t>(problem.sections[section].devices.size());
  switch (next(13)) {
  case 0: // Into another micro-batch,
    moveSample(section, sample, other);
    return other != draft;
  case 1: { // into one of its own,
    if (drafts[draft].samples < 2)
      return false;
    Draft made = drafts[draft];
    made.samples = 0;
    made.replica = static_cast<uint32_t>(next(replicas));
    made.forwardKey += static_cast<int64_t>(next(3)) - 1;
    made.backwardKey += static_cast<int64_t>(next(3)) - 1;
    drafts.push_back(made);
    moveSample(section, sample, static_cast<uint32_t>(drafts.size() - 1));
    return true;
  }
  case 2: { // or in exchange for another.
    uint32_t swapped = places[next(places.size())];
    if (other == draft || drafts[draftOf[swapped]].section != section || draftOf[swapped] == draft)
      return false;
    uint32_t holder = draftOf[swapped];
    moveSample(section, static_cast<uint32_t>(swapped - section * sampleCount), draft);
    moveSample(section, sample, holder);
    return true;
  }
  case 3: // Another replica,
    drafts[draft].replica = static_cast<uint32_t>(next(replicas));
    return replicas > 1;
  case 4: // or replicas exchanged.
    std::swap(drafts[draft].replica, drafts[other].replica);
    return other != draft;
  case 5: // Another order,
    std::swap(drafts[draft].forwardKey, drafts[other].forwardKey);
    std::swap(drafts[draft].backwardKey, drafts[other].backwardKey);
    return other != draft;
  case 6: // of one direction only,
    if (next(2))
      std::swap(drafts[draft].forwardKey, drafts[other].forwardKey);
    else
      std::swap(drafts[draft].backwardKey, drafts[other].backwardKey);
    return other != draft;
  case 7:
  case 8:
  case 9: // of two tasks,
    return force(problem);
  case 10:
  case 11: // of two samples, in all sections,
    return exchange(problem, sample, static_cast<uint32_t>(next(sampleCount)));
  default: // or another rule.
    rule = static_cast<Rule>(next(static_cast<uint64_t>(Rule::ZeroBubble) + 1));
    return rule != savedRule;
  }
}

bool Polisher::form(const Problem &problem, const ProblemIndex &index, Groups &groups) {
  members.fill(drafts.size(), places.size(), [&](size_t i) { return draftOf[places[i]]; });
  groups.begin(problem);
  forwardKey.clear();
  backwardKey.clear();
  groupOfDraft.assign(drafts.size(), none);
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    groups.beginSection(problem);
    for (uint32_t d = 0; d < drafts.size(); ++d) {
      if (drafts[d].section != s || drafts[d].samples == 0)
        continue;
      groupOfDraft[d] = static_cast<uint32_t>(groups.list.size());
      groups.open(problem);
      groups.list.back().replica = drafts[d].replica;
      forwardKey.push_back(drafts[d].forwardKey);
      backwardKey.push_back(drafts[d].backwardKey);
      for (uint32_t i : members[d]) {
        uint32_t sample = static_cast<uint32_t>(places[i] - s * sampleCount);
        if (!groups.fits(problem, sample))
          return false;
        groups.add(problem, sample);
      }
    }
  }
  groups.finish(problem, index);
  forced.clear();
  for (ListScheduler::Forced order : draftForced) {
    if (!sharesDevice(problem, order))
      continue;
    order.before = groupOfDraft[order.before];
    order.after = groupOfDraft[order.after];
    if (order.before != none && order.after != none)
      forced.push_back(order);
  }
  return true;
}

bool Polisher::change(const Problem &problem, const ProblemIndex &index, Groups &groups) {
  savedDrafts = drafts;
  savedDraftOf = draftOf;
  savedRule = rule;
  savedForced = draftForced;
  bool changed = mutate(problem);
  if (next(3) == 0) // Some improvements need two changes at once.
    changed |= mutate(problem);
  if (changed && form(problem, index, groups))
    return true;
  undo();
  return false;
}

void Polisher::undo() {
  drafts = savedDrafts;
  draftOf = savedDraftOf;
  rule = savedRule;
  draftForced = savedForced;
}

} // namespace maestro::wavefront
