#include "wavefront/groups.h"

#include <algorithm>

namespace maestro::wavefront {

void Groups::begin(const Problem &problem) {
  samples.clear();
  dims.clear();
  list.clear();
  firstOfSection.clear();
  groupOf.assign(problem.sections.size() * problem.sampleCount(), kNone);
  section = kNone;
}

void Groups::beginSection(const Problem &) {
  firstOfSection.push_back(static_cast<uint32_t>(list.size()));
  ++section;
}

void Groups::open(const Problem &problem) {
  list.push_back({section, 0, static_cast<uint32_t>(samples.size()), 0, static_cast<uint32_t>(dims.size())});
  dims.resize(dims.size() + problem.dims.size(), 0);
}

bool Groups::fits(const Problem &problem, uint32_t sample) {
  const MicroBatch &group = list.back();
  joined.resize(problem.dims.size());
  join(problem, dims.data() + group.firstDim, problem.sizes.data() + sample * problem.dims.size(), joined.data());
  return wavefront::fits(problem.sections[section], int64_t{group.samples} + 1, joined.data());
}

void Groups::add(const Problem &problem, uint32_t sample) {
  MicroBatch &group = list.back();
  int64_t *held = dims.data() + group.firstDim;
  join(problem, held, problem.sizes.data() + sample * problem.dims.size(), held);
  ++group.samples;
  samples.push_back(sample);
  groupOf[section * problem.sampleCount() + sample] = static_cast<uint32_t>(list.size() - 1);
}

void Groups::finish(const Problem &problem, const ProblemIndex &index) {
  firstOfSection.push_back(static_cast<uint32_t>(list.size()));
  relate(problem, index);
  evaluateCosts(problem, index);
}

/// Walks each consumer group's samples; `stamp` keeps a producer group from being listed twice.
void Groups::relate(const Problem &problem, const ProblemIndex &index) {
  size_t sampleCount = problem.sampleCount();
  if (consumers.size() < index.pairs.size()) {
    consumers.resize(index.pairs.size());
    producers.resize(index.pairs.size());
  }
  stamp.assign(list.size(), kNone);
  for (size_t p = 0; p < index.pairs.size(); ++p) {
    auto [from, to] = index.pairs[p];
    Lists &up = producers[p], &down = consumers[p];
    uint32_t first = firstOfSection[from];
    up.clear();
    down.offsets.assign(count(from) + 2, 0);
    for (uint32_t group = firstOfSection[to]; group < firstOfSection[to + 1]; ++group) {
      for (uint32_t sample : samplesOf(group)) {
        uint32_t producer = groupOf[from * sampleCount + sample];
        if (producer == kNone || stamp[producer] == group)
          continue;
        stamp[producer] = group;
        up.items.push_back(producer);
        ++down.offsets[producer - first + 2];
      }
      up.close();
    }
    for (size_t i = 2; i < down.offsets.size(); ++i)
      down.offsets[i] += down.offsets[i - 1];
    down.items.resize(up.items.size());
    for (uint32_t group = firstOfSection[to]; group < firstOfSection[to + 1]; ++group)
      for (uint32_t producer : up[group - firstOfSection[to]])
        down.items[down.offsets[producer - first + 1]++] = group;
    down.offsets.pop_back();
  }
}

void Groups::evaluateCosts(const Problem &problem, const ProblemIndex &index) {
  firstTask.clear();
  taskNs.clear();
  workNs.clear();
  for (const MicroBatch &group : list) {
    const Section &rules = problem.sections[group.section];
    const int64_t *sizes = dims.data() + group.firstDim;
    firstTask.push_back(static_cast<uint32_t>(taskNs.size()));
    int64_t work = 0, forward = 0, backward = 0, weight = 0;
    for (uint32_t stage = 0; stage < rules.stages.size(); ++stage) {
      if (!index.costsAsBefore[index.stageId(group.section, stage)]) {
        forward = evaluate(rules.stages[stage].forward, sizes);
        backward = rules.trains ? evaluate(rules.stages[stage].backward, sizes) : 0;
        weight = rules.splitsBackward ? evaluate(rules.stages[stage].weightGradient, sizes) : 0;
      }
      taskNs.insert(taskNs.end(), {forward, backward, weight});
      work += forward + backward + weight;
    }
    workNs.push_back(work);
  }
  firstTask.push_back(static_cast<uint32_t>(taskNs.size()));
  tasks = 0;
  for (const MicroBatch &group : list) {
    const Section &rules = problem.sections[group.section];
    tasks += rules.stages.size() * (rules.splitsBackward ? 3 : rules.trains ? 2 : 1);
  }
  arrivals = 0;
  for (const EdgeFacts &edge : index.edges)
    arrivals +=
        (edge.pair == kNone ? count(edge.producer) : producers[edge.pair].items.size()) * (edge.gradient ? 2 : 1);
  firstTransfer.clear();
  firstGradientTransfer.clear();
  transferNs.clear();
  auto addTransfers = [&](const Cost &cost, uint32_t s) {
    bool constant =
        std::all_of(cost.terms.begin(), cost.terms.end(), [](const CostTerm &term) { return term.dims.empty(); });
    if (constant)
      transferNs.resize(transferNs.size() + count(s), evaluate(cost, nullptr));
    for (uint32_t g = firstOfSection[s]; !constant && g < firstOfSection[s + 1]; ++g)
      transferNs.push_back(evaluate(cost, dims.data() + list[g].firstDim));
  };
  for (const Edge &edge : problem.edges) {
    firstTransfer.push_back(transferNs.size());
    addTransfers(edge.transfer, edge.producer);
    firstGradientTransfer.push_back(transferNs.size());
    if (edge.gradient)
      addTransfers(edge.gradientTransfer, edge.consumer);
  }
}

} // namespace maestro::wavefront
