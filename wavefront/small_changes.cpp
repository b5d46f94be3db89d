#include "wavefront/small_changes.h"

#include <algorithm>

namespace maestro::wavefront {

void SmallChanges::begin(const Problem &problem, const Schedule &schedule, Rule rule) {
  constexpr int64_t kNoTask = INT64_MAX / 2; // Changes add to keys.
  sampleCount = problem.sampleCount();
  current.rule = rule;
  current.drafts.clear();
  current.draftOf.assign(problem.sections.size() * sampleCount, kNone);
  entries.clear();
  for (uint32_t g = 0; g < schedule.microBatches.size(); ++g) {
    const MicroBatch &group = schedule.microBatches[g];
    current.drafts.push_back({group.section, group.replica, group.samples, kNoTask, kNoTask});
    for (uint32_t sample : schedule.samplesOf(group)) {
      entries.push_back(static_cast<uint32_t>(group.section * sampleCount + sample));
      current.draftOf[entries.back()] = g;
    }
  }
  for (const Task &task : schedule.tasks) {
    Draft &draft = current.drafts[task.microBatch];
    int64_t &key = task.kind == TaskKind::Forward ? draft.forwardKey : draft.backwardKey;
    if (task.kind != TaskKind::WeightGradient)
      key = std::min(key, task.startNs);
  }
}

uint32_t SmallChanges::draw(size_t count) { return static_cast<uint32_t>(randomAt(counter++) % count); }

/// Another one of the same section; itself if there is none.
uint32_t SmallChanges::otherDraft(uint32_t draft) {
  auto count = static_cast<uint32_t>(made.drafts.size());
  for (uint32_t i = 0, from = draw(count); i < count; ++i) {
    uint32_t other = (from + i) % count;
    if (other != draft && made.drafts[other].section == made.drafts[draft].section && made.drafts[other].samples > 0)
      return other;
  }
  return draft;
}

void SmallChanges::move(uint32_t entry, uint32_t draft) {
  --made.drafts[made.draftOf[entry]].samples;
  ++made.drafts[draft].samples;
  made.draftOf[entry] = draft;
}

void SmallChanges::change(const Problem &problem) {
  uint32_t entry = entries[draw(entries.size())], own = made.draftOf[entry], other = otherDraft(own);
  auto sample = static_cast<uint32_t>(entry % sampleCount), second = draw(sampleCount);
  Draft &draft = made.drafts[own];
  switch (draw(9)) {
  case 0: // A sample into another micro-batch,
    return move(entry, other);
  case 1: // or into one of its own, a little sooner or later.
    made.drafts.push_back({draft.section, draw(problem.sections[draft.section].devices.size()), 0,
                           draft.forwardKey + draw(3) - 1, draft.backwardKey + draw(3) - 1});
    return move(entry, static_cast<uint32_t>(made.drafts.size() - 1));
  case 2: // Two samples, each in the other's place, in one section
    if (uint32_t swapped = entry - sample + second; made.draftOf[swapped] != kNone) {
      uint32_t there = made.draftOf[swapped];
      move(swapped, own);
      move(entry, there);
    }
    return;
  case 3: // or in all.
    for (size_t first = 0; first < made.draftOf.size(); first += sampleCount)
      if (made.draftOf[first + sample] != kNone && made.draftOf[first + second] != kNone)
        std::swap(made.draftOf[first + sample], made.draftOf[first + second]);
    return;
  case 4: // Another replica.
    draft.replica = draw(problem.sections[draft.section].devices.size());
    return;
  case 5: // Another order, forward,
    return std::swap(draft.forwardKey, made.drafts[other].forwardKey);
  case 6: // backward,
    return std::swap(draft.backwardKey, made.drafts[other].backwardKey);
  case 7: // or both.
    std::swap(draft.forwardKey, made.drafts[other].forwardKey);
    return std::swap(draft.backwardKey, made.drafts[other].backwardKey);
  default:
    made.rule = static_cast<Rule>(draw(static_cast<size_t>(Rule::ZeroBubble) + 1));
  }
}

bool SmallChanges::form(const Problem &problem, const ProblemIndex &index, uint64_t attempt, Groups &groups) {
  counter = attempt << 8; // More than what one attempt draws.
  made = current;
  do
    change(problem);
  while (draw(2) == 0); // Some improvements need several at once.
  members.fill(made.drafts.size(), entries.size(), [&](size_t i) { return made.draftOf[entries[i]]; });
  groups.begin(problem);
  forwardKey.clear();
  backwardKey.clear();
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    groups.beginSection(problem);
    for (uint32_t d = 0; d < made.drafts.size(); ++d) {
      const Draft &draft = made.drafts[d];
      if (draft.section != s || draft.samples == 0)
        continue;
      groups.open(problem);
      groups.list.back().replica = draft.replica;
      forwardKey.push_back(draft.forwardKey);
      backwardKey.push_back(draft.backwardKey);
      for (uint32_t i : members[d]) {
        auto sample = static_cast<uint32_t>(entries[i] % sampleCount);
        if (!groups.fits(problem, sample))
          return false;
        groups.add(problem, sample);
      }
    }
  }
  groups.finish(problem, index);
  return true;
}

} // namespace maestro::wavefront
