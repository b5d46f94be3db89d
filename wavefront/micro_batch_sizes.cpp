#include "wavefront/micro_batch_sizes.h"

namespace maestro::wavefront {
namespace {

/// A micro-batch should take its constants at least so many times: with 4 or 8, training problems are no shorter.
constexpr int64_t kMinConstants = 16;

int64_t stagesTimes256(const Problem &problem, uint32_t section) {
  return static_cast<int64_t>(problem.sections[section].stages.size()) * 256;
}

} // namespace

/// Half of what rings and slots hold, so that the next can come meanwhile.
void MicroBatchSizes::prepare(const Problem &problem, const ProblemIndex &index, uint32_t trunk) {
  maxApart.assign(problem.sections.size(), INT64_MAX);
  for (uint32_t s = trunk + 1; s < problem.sections.size() && problem.sections[trunk].trains; ++s)
    for (const Stage &stage : problem.sections[trunk].stages)
      maxApart[s] = std::min<int64_t>(maxApart[s], stage.slots);
  for (const EdgeFacts &edge : index.edges) {
    if (edge.pair == kNone)
      continue;
    int64_t depth = edge.depth, gradientDepth = edge.gradient ? edge.gradientDepth : INT64_MAX;
    bool isBesideTrunk = edge.consumer == trunk || edge.producer == trunk;
    for (uint32_t s : {edge.producer, edge.consumer})
      maxApart[s] = std::min(maxApart[s], !isBesideTrunk ? std::min(depth, gradientDepth) // Of two others, either's.
                                          : s < trunk    ? depth
                                                         : gradientDepth);
  }
  for (int64_t &apart : maxApart)
    apart = std::max<int64_t>(1, apart / 2);
}

void MicroBatchSizes::limit(uint32_t section, int64_t count) {
  counts[section] = std::min(counts[section], std::max<int64_t>(count, 256));
}

/// A station has its own stages in flight and, where gradients come back, what the section below has in flight and one
/// that waits there, counted in its own micro-batches; their gradients must fit the rings.
void MicroBatchSizes::limitBySlots(const Problem &problem, const ProblemIndex &index, int64_t headroom) {
  inFlight.assign(problem.sections.size(), 0);
  for (uint32_t s = static_cast<uint32_t>(problem.sections.size()); s-- > 0;) {
    inFlight[s] = stagesTimes256(problem, s);
    int64_t spare = std::max<int64_t>(256, int64_t{problem.sections[s].stages[0].slots} * 256 - inFlight[s]), below = 0;
    for (const EdgeFacts &edge : index.edges) {
      if (edge.producer != s || edge.pair == kNone || !edge.gradient)
        continue;
      uint32_t c = edge.consumer;
      int64_t replicas = replicaCount(problem, s), others = replicaCount(problem, c);
      limit(s, counts[c] * replicas / others * spare / (inFlight[c] + 256) / headroom);
      limit(s, counts[c] * std::max<int64_t>(1, int64_t{edge.gradientDepth} - 1) * replicas / others / headroom);
      below = std::max(below, (inFlight[c] + 256) * (counts[s] / replicas) / std::max<int64_t>(1, counts[c] / others));
    }
    inFlight[s] += below;
  }
}

/// What slots can have on the way at a time may ask for fewer and larger micro-batches than the choice does
/// (Little's law).
void MicroBatchSizes::choose(const Problem &problem, const ProblemIndex &index, const SampleWork &work,
                             const Choice &choice) {
  size_t sections = problem.sections.size();
  counts.clear();
  for (uint32_t s = 0; s < sections; ++s) {
    int64_t wanted = std::min(work.activeCount[s], choice.microBatchesPerReplica * replicaCount(problem, s));
    counts.push_back(std::max<int64_t>(1, wanted) * 256);
  }
  limitBySlots(problem, index, choice.headroom);
  groupNs.clear();
  for (size_t s = 0; s < sections; ++s)
    groupNs.push_back(std::max(work.sectionNs[s] / counts[s] * 256, work.constantNs[s] * kMinConstants));
}

/// Of `chain`, which has a time for each section: the longest sum along edges.
int64_t MicroBatchSizes::longestChain(const ProblemIndex &index) {
  int64_t longest = 0;
  reach.assign(chain.size(), 0);
  for (uint32_t s = 0; s < chain.size(); ++s) {
    chain[s] += reach[s];
    longest = std::max(longest, chain[s]);
    for (const ProblemIndex::Pair &pair : index.pairs)
      if (pair.producer == s)
        reach[pair.consumer] = std::max(reach[pair.consumer], chain[s]);
  }
  return longest;
}

int64_t MicroBatchSizes::longestChainNs(const ProblemIndex &index) {
  chain = groupNs;
  return longestChain(index);
}

int64_t MicroBatchSizes::theoryPerReplica(const Problem &problem, const ProblemIndex &index, const SampleWork &work) {
  int64_t best = 1, bestNs = INT64_MAX;
  for (int64_t each = 1; each < 2 * work.maxPerReplica; each = each < 4 ? each + 1 : each * 5 / 4) {
    int64_t fullest = 0;
    chain.clear();
    for (uint32_t s = 0; s < problem.sections.size(); ++s) {
      int64_t active = work.activeCount[s], replicas = replicaCount(problem, s);
      int64_t count = std::max<int64_t>(1, std::min(active, each * replicas));
      int64_t ns = work.sectionNs[s] - (active - std::min(count, active)) * work.constantNs[s];
      fullest = std::max(fullest, ns / (replicas * static_cast<int64_t>(problem.sections[s].stages.size())));
      chain.push_back(std::max(ns / count, work.longestNs[s] / 2));
    }
    int64_t total = fullest + longestChain(index);
    if (total < bestNs)
      bestNs = total, best = each;
  }
  return best;
}

} // namespace maestro::wavefront
