#include "wavefront/sequences.h"

#include <algorithm>

namespace maestro::wavefront {

void Sequences::sortOne(const ProblemIndex &index, const Groups &groups, const std::vector<int64_t> &key, Lists &lists,
                        std::vector<uint32_t> &position) {
  lists.fill(index.firstReplica.back(), groups.list.size(),
             [&](size_t g) { return index.replica(groups.list[g].section, groups.list[g].replica); });
  position.resize(groups.list.size());
  for (size_t r = 0; r < lists.size(); ++r) {
    auto first = lists.items.begin() + lists.offsets[r], last = lists.items.begin() + lists.offsets[r + 1];
    auto before = [&](uint32_t a, uint32_t b) { return key[a] != key[b] ? key[a] < key[b] : a < b; };
    if (!std::is_sorted(first, last, before)) // Mostly they were formed so.
      std::sort(first, last, before);
    for (auto it = first; it != last; ++it)
      position[*it] = static_cast<uint32_t>(it - first);
  }
}

void Sequences::sort(const ProblemIndex &index, const Groups &groups, const std::vector<int64_t> &forwardKey,
                     const std::vector<int64_t> &backwardKey) {
  sortOne(index, groups, forwardKey, forward, forwardPosition);
  sortOne(index, groups, backwardKey, backward, backwardPosition);
}

void computeTails(const Problem &problem, const ProblemIndex &index, const Groups &groups,
                  std::vector<int64_t> &tails) {
  tails.assign(groups.taskNs.size(), 0);
  auto sectionGroups = [&](uint32_t section, auto visit) {
    for (uint32_t g = groups.firstOfSection[section]; g < groups.firstOfSection[section + 1]; ++g)
      visit(g, g - groups.firstOfSection[section]);
  };
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    const Section &section = problem.sections[s];
    for (uint32_t stage = 0; section.trains && stage < section.stages.size(); ++stage)
      sectionGroups(s, [&](uint32_t g, uint32_t i) {
        int64_t tail = groups.taskNs[groups.task(g, stage, TaskKind::WeightGradient)];
        tails[groups.task(g, stage, TaskKind::WeightGradient)] = tail;
        for (uint32_t e : index.edgesIn[index.stageId(s, stage)]) {
          const EdgeFacts &edge = index.edges[e];
          if (!edge.gradient)
            continue;
          int64_t transfer = groups.gradientTransfer(e, i);
          auto reach = [&](uint32_t producer) {
            tail = std::max(tail, transfer + tails[groups.task(producer, edge.producerStage, TaskKind::Backward)]);
          };
          if (edge.pair == kNone)
            reach(g);
          else
            for (uint32_t producer : groups.producers[edge.pair][i])
              reach(producer);
        }
        uint32_t task = groups.task(g, stage, TaskKind::Backward);
        tails[task] = tail + groups.taskNs[task];
      });
  }
  for (uint32_t s = static_cast<uint32_t>(problem.sections.size()); s-- > 0;)
    for (uint32_t stage = static_cast<uint32_t>(problem.sections[s].stages.size()); stage-- > 0;)
      sectionGroups(s, [&](uint32_t g, uint32_t i) {
        int64_t tail = tails[groups.task(g, stage, TaskKind::Backward)];
        for (uint32_t e : index.edgesOut[index.stageId(s, stage)]) {
          const EdgeFacts &edge = index.edges[e];
          int64_t transfer = groups.transfer(e, i);
          auto reach = [&](uint32_t consumer) {
            tail = std::max(tail, transfer + tails[groups.task(consumer, edge.consumerStage, TaskKind::Forward)]);
          };
          if (edge.pair == kNone)
            reach(g);
          else
            for (uint32_t consumer : groups.consumers[edge.pair][i])
              reach(consumer);
        }
        uint32_t task = groups.task(g, stage, TaskKind::Forward);
        tails[task] = tail + groups.taskNs[task];
      });
}

} // namespace maestro::wavefront
