// How many micro-batches each section should form, and how they may overlap: what places in flight and rings allow.
#include "wavefront/regroup_units.h"

#include <algorithm>

namespace maestro::wavefront {

/// Rings and places in flight bound how micro-batches may overlap: half of them, so that the next can come meanwhile.
void Regrouper::prepareLimits(const Problem &problem, const ProblemIndex &index) {
  spread.assign(problem.sections.size(), INT64_MAX);
  pieces.assign(problem.sections.size(), INT64_MAX);
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    int64_t slots = INT64_MAX;
    for (const Stage &stage : problem.sections[s].stages)
      slots = std::min<int64_t>(slots, stage.slots);
    if (s < trunk && problem.sections[s].trains)
      pieces[s] = slots;
    if (s > trunk && problem.sections[trunk].trains)
      for (const Stage &stage : problem.sections[trunk].stages)
        spread[s] = std::min<int64_t>(spread[s], stage.slots);
  }
  for (const EdgeFacts &edge : index.edges) {
    if (edge.pair == none)
      continue;
    uint32_t s = edge.producer == trunk ? edge.consumer : edge.producer;
    int64_t gradientDepth = edge.gradient ? edge.gradientDepth : INT64_MAX;
    if (edge.consumer != trunk && edge.producer != trunk) { // Between others: whichever of the two is larger.
      for (uint32_t side : {edge.producer, edge.consumer}) {
        spread[side] = std::min({spread[side], int64_t{edge.depth}, gradientDepth});
        pieces[side] = std::min({pieces[side], int64_t{edge.depth}, gradientDepth});
      }
      continue;
    }
    spread[s] = std::min(spread[s], s < trunk ? int64_t{edge.depth} : gradientDepth);
    pieces[s] = std::min(pieces[s], s < trunk ? gradientDepth : int64_t{edge.depth});
  }
  trunkMost.maxSamples = problem.sections[trunk].maxSamples;
  trunkMost.capacity = problem.sections[trunk].capacity;
  trunkMost.areas = problem.sections[trunk].areas;
  trunkMost.unpadded = problem.sections[trunk].unpadded;
  auto product = [](int64_t a, int64_t b) { return a != 0 && b > INT64_MAX / a ? INT64_MAX : a * b; };
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    spread[s] = std::max<int64_t>(1, spread[s] / 2);
    pieces[s] = std::max<int64_t>(1, pieces[s] / 2);
    if (s == trunk)
      continue;
    const Section &section = problem.sections[s];
    int64_t most = product(pieces[s], replicas(problem, s));
    trunkMost.maxSamples = std::min(trunkMost.maxSamples, product(most, section.maxSamples));
    for (size_t d = 0; d < problem.dims.size(); ++d)
      if (problem.dims[d].sum)
        trunkMost.capacity[d] = std::min(trunkMost.capacity[d], product(most, section.capacity[d]));
    for (const Area &area : section.areas)
      trunkMost.areas.push_back({area.rows, area.padded, product(most, area.capacity)});
  }
}

/// How many micro-batches each section should form. The pace asks for so many a replica; what the others and their
/// rings can have on the way at a time may ask for fewer and larger ones (Little's law):
///  - a station has its own stages in flight and, where gradients come back, what the section below has in flight and
///  one
///    that waits there, counted in its own micro-batches;
///  - while all replicas of a producer work, the consumer micro-batches that they feed must fit the rings; and likewise
///    for gradients.
void Regrouper::chooseCounts(const Problem &problem, const ProblemIndex &index, Recipe recipe) {
  size_t sections = problem.sections.size();
  counts.resize(sections);
  for (uint32_t s = 0; s < sections; ++s) {
    int64_t pace = recipe.pace * (problem.sections[s].trains ? 1 : recipe.frozen);
    counts[s] = std::max<int64_t>(1, std::min(activeCount[s], pace * replicas(problem, s))) * 256;
  }
  freeCounts = counts;
  auto limit = [&](uint32_t s, int64_t count) { counts[s] = std::min(counts[s], std::max<int64_t>(count, 256)); };
  // One sweep each way: the two kinds of limit can contradict each other, and then neither should win by repetition.
  auto placesBelow = [&](uint32_t s) { return static_cast<int64_t>(problem.sections[s].stages.size()) * 256; };
  for (const EdgeFacts &edge : index.edges) {
    uint32_t s = edge.producer, c = edge.consumer;
    if (edge.pair == none)
      continue;
    int64_t room = std::max<int64_t>(256, (int64_t{edge.depth} - 1) * 256 - (edge.held ? placesBelow(c) : 0));
    limit(c, counts[s] * room / 256 * replicas(problem, c) / replicas(problem, s) / recipe.slack);
  }
  inFlight.assign(sections, 0);
  for (uint32_t s = static_cast<uint32_t>(sections); s-- > 0;) {
    inFlight[s] = placesBelow(s);
    int64_t spare = std::max<int64_t>(256, int64_t{problem.sections[s].stages[0].slots} * 256 - inFlight[s]), below = 0;
    for (const EdgeFacts &edge : index.edges) {
      if (edge.producer != s || edge.pair == none || !edge.gradient)
        continue;
      uint32_t c = edge.consumer;
      limit(s, counts[c] * replicas(problem, s) / replicas(problem, c) * spare / (inFlight[c] + 256) / recipe.slack);
      limit(s, counts[c] * std::max<int64_t>(1, int64_t{edge.gradientDepth} - 1) * replicas(problem, s) /
                   replicas(problem, c) / recipe.slack);
      below = std::max(below, (inFlight[c] + 256) * (counts[s] / replicas(problem, s)) /
                                  std::max<int64_t>(1, counts[c] / replicas(problem, c)));
    }
    inFlight[s] += below;
  }
}

/// How long a micro-batch may take. Below a few constants' worth it would only cost.
void Regrouper::chooseTimes(const Problem &problem, Recipe recipe) {
  groupNs.assign(problem.sections.size(), 0);
  for (size_t s = 0; s < problem.sections.size(); ++s)
    groupNs[s] =
        std::max({sectionNs[s] / counts[s] * 256, constantNs[s] * recipe.least, recipe.alike ? largestNs[s] : 0});
}

/// Of `chain`, which has a time for each section: the longest sum along edges.
int64_t Regrouper::longestChain(const ProblemIndex &index) {
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

/// In theory: constants grow with the number of micro-batches, filling and draining the longest chain with their size.
int64_t Regrouper::goodPace(const Problem &problem, const ProblemIndex &index) {
  int64_t best = 1, bestNs = INT64_MAX;
  for (int64_t pace = 1; pace < 2 * mostPace; pace = pace < 4 ? pace + 1 : pace * 5 / 4) {
    int64_t fullest = 0;
    chain.clear();
    for (uint32_t s = 0; s < problem.sections.size(); ++s) {
      int64_t count = std::max<int64_t>(1, std::min(activeCount[s], pace * replicas(problem, s)));
      int64_t work = sectionNs[s] - (activeCount[s] - std::min(count, activeCount[s])) * constantNs[s];
      int64_t stages = static_cast<int64_t>(problem.sections[s].stages.size());
      fullest = std::max(fullest, work / (replicas(problem, s) * stages));
      chain.push_back(std::max(work / count, largestNs[s] / 2));
    }
    int64_t total = fullest + longestChain(index);
    if (total < bestNs)
      bestNs = total, best = pace;
  }
  return best;
}

} // namespace maestro::wavefront
