// The lower bound's part for sections in several stages: what passes through all of them, and what that costs.
#include "wavefront/bound_units.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

namespace maestro::wavefront {
namespace {

/// A polynomial that is nowhere more than any stage's: of each product of dims that all have, the smallest coefficient.
void findCommonCost(const Section &section, Cost Stage::*kind, Cost &common) {
  size_t count = 0;
  auto find = [](const std::vector<CostTerm> &terms, size_t size, const std::vector<uint32_t> &dims) {
    auto end = terms.begin() + static_cast<int64_t>(size);
    return std::find_if(terms.begin(), end, [&](const CostTerm &term) { return term.dims == dims; }) - terms.begin();
  };
  for (const CostTerm &term : (section.stages[0].*kind).terms) {
    if (static_cast<size_t>(find(common.terms, count, term.dims)) < count)
      continue; // Once is less than all of it.
    if (count == common.terms.size())
      common.terms.emplace_back();
    CostTerm &made = common.terms[count++];
    made.picoseconds = term.picoseconds;
    made.dims.assign(term.dims.begin(), term.dims.end());
    for (const Stage &stage : section.stages) {
      const std::vector<CostTerm> &terms = (stage.*kind).terms;
      size_t same = static_cast<size_t>(find(terms, terms.size(), term.dims));
      made.picoseconds = std::min(made.picoseconds, same == terms.size() ? 0 : terms[same].picoseconds);
    }
  }
  for (; count < common.terms.size(); ++count) { // Kept for their memory.
    common.terms[count].picoseconds = 0;
    common.terms[count].dims.clear();
  }
}

int64_t partOf(int64_t ps, int64_t allPs) {
  return static_cast<int64_t>(static_cast<unsigned __int128>(ps) * PipelineFacts::wholePart /
                              static_cast<uint64_t>(allPs));
}

} // namespace

/// Whether each stage's forward tasks wait for the ones before, and with `gradients` backward tasks for those behind.
bool LowerBound::isChain(const Problem &problem, const ProblemIndex &index, uint32_t s, bool gradients) const {
  for (uint32_t stage = 1; stage < problem.sections[s].stages.size(); ++stage) {
    std::span<const uint32_t> in = index.edgesIn[index.place(s, stage)];
    if (std::none_of(in.begin(), in.end(), [&](uint32_t e) {
          return index.edges[e].producer == s && index.edges[e].producerStage + 1 == stage &&
                 (index.edges[e].gradient || !gradients);
        }))
      return false;
  }
  return true;
}

void LowerBound::measureWays(const Problem &problem, const ProblemIndex &index, uint32_t s) {
  size_t samples = problem.sampleCount(), dims = problem.dims.size(), stages = problem.sections[s].stages.size();
  findCommonCost(problem.sections[s], &Stage::forward, common);
  int64_t sharedPs = 0;
  for (const CostTerm &term : common.terms)
    if (!hasSummedDim(problem.dims, term))
      sharedPs = addSaturated(sharedPs, groupWorkPs(problem, s, term));
  allWorkNs = sharedPs / 1000;
  ways.clear();
  for (size_t i = 0; i < samples; ++i) {
    if (!active[s * samples + i])
      continue;
    int64_t all = 0, shortest = never, workPs = 0;
    for (size_t stage = 0; stage < stages; ++stage) {
      int64_t ns = forwardNs[(index.firstPlace[s] + stage) * samples + i];
      all += ns;
      shortest = std::min(shortest, ns);
    }
    for (const CostTerm &term : common.terms)
      if (hasSummedDim(problem.dims, term))
        workPs = addSaturated(workPs, termPs(term, aloneDims.data() + i * dims));
    ways.push_back({all - shortest, workPs / 1000});
    allWorkNs += workPs / 1000;
  }
  std::sort(ways.begin(), ways.end(), [](const Way &a, const Way &b) { return a.aroundNs > b.aroundNs; });
}

/// Whether the replicas might do all work within so long, where one that has a sample works for its `aroundNs` less.
/// The replica with the longest way takes the next ones too, as many as it can; the first that it cannot is on another;
/// and so on.
bool LowerBound::flowsWithin(int64_t ns, size_t replicas) const {
  int64_t room = 0, work = 0;
  size_t next = 0; // Of the ways: the longest that the replicas so far cannot have.
  for (size_t replica = 0; replica < replicas; ++replica) {
    room += ns - (next < ways.size() ? ways[next].aroundNs : 0);
    while (next < ways.size() && work + ways[next].workNs <= room)
      work += ways[next++].workNs;
  }
  return room >= allWorkNs;
}

/// By the same argument for the largest of n micro-batches, which has at least an n-th of the replica's work: many cost
/// constants, few take long to pass.
int64_t LowerBound::batchesBound(size_t stages, size_t replicas) const {
  int64_t constant = constantNs(common), work = 0, least = never, around = static_cast<int64_t>(stages) - 1;
  for (const Way &way : ways)
    work = addSaturated(work, way.workNs);
  work /= static_cast<int64_t>(replicas);
  if (work > never / around / 4 || constant > never / static_cast<int64_t>(ways.size() + stages) / 4)
    return 0;
  for (int64_t n = 1; n <= static_cast<int64_t>(ways.size()); ++n)
    least = std::min(least, work + (n + around) * constant + around * (work / n));
  return least;
}

/// Take any micro-batch of a replica's. Before it, the first stage does what precedes it there; it then passes all
/// stages; after it, the last one does what follows it there. What is neither overtakes it between two stages i and i +
/// 1: all those on i after it, and the last of them on i + 1, while it waits. So the replica takes, one after the
/// other, each micro-batch's time in some stage, and this one's in all the others; which is most for the one with the
/// longest sample. (As in a proportionate flow shop: Pinedo, Scheduling, section 6.1.)
int64_t LowerBound::frozenBound(const Problem &problem, const ProblemIndex &index, uint32_t s, int64_t known) {
  const Section &section = problem.sections[s];
  size_t stages = section.stages.size(), replicas = section.devices.size();
  if (section.trains || stages < 2 || !isChain(problem, index, s, false))
    return 0;
  measureWays(problem, index, s);
  if (ways.empty())
    return 0;
  int64_t ends = endsNs(problem, index, s, true), batches = addSaturated(batchesBound(stages, replicas), ends);
  batches = addSaturated(batches, hopsNs(problem, index, s, false));
  int64_t low = std::max<int64_t>(0, std::max(known, batches) - ends - 1), high = allWorkNs + ways[0].aroundNs;
  if (low >= high || flowsWithin(low + 1, replicas))
    return batches;
  while (high - low > 1) { // Longer than `low`, not longer than `high`.
    int64_t middle = low + (high - low) / 2;
    (flowsWithin(middle, replicas) ? high : low) = middle;
  }
  return high + ends;
}

/// How much of `shares` one micro-batch can hold: the largest samples', or what its capacities hold of those that have
/// most for them.
int64_t LowerBound::mostInOne(const Problem &problem, uint32_t s) {
  size_t samples = problem.sampleCount(), dims = problem.dims.size();
  const Section &section = problem.sections[s];
  values.clear();
  for (size_t i = 0; i < samples; ++i)
    if (active[s * samples + i])
      values.push_back(shares[i]);
  size_t count = static_cast<size_t>(std::min(section.maxSamples, static_cast<int64_t>(values.size())));
  std::partial_sort(values.begin(), values.begin() + static_cast<int64_t>(count), values.end(), std::greater<>());
  int64_t most =
      std::accumulate(values.begin(), values.begin() + static_cast<int64_t>(count), int64_t{0}, addSaturated);
  auto within = [&](int64_t capacity, auto sizeOf) {
    int64_t densest = 0;
    for (size_t i = 0; i < samples; ++i) {
      int64_t size = active[s * samples + i] ? sizeOf(aloneDims.data() + i * dims) : 1;
      if (size == 0)
        return never;
      if (active[s * samples + i])
        densest = std::max(densest, static_cast<int64_t>(
                                        std::min<__int128>(never, static_cast<__int128>(shares[i]) * capacity / size)));
    }
    return densest;
  };
  for (size_t d = 0; d < dims; ++d)
    if (problem.dims[d].sum)
      most = std::min(most, within(section.capacity[d], [&](const int64_t *sizes) { return sizes[d]; }));
  for (const Area &area : section.areas)
    most = std::min(most,
                    within(area.capacity, [&](const int64_t *sizes) { return sizes[area.rows] * sizes[area.padded]; }));
  return most;
}

/// What transfers between the stages take at least, there and with `gradients` back.
int64_t LowerBound::hopsNs(const Problem &problem, const ProblemIndex &index, uint32_t s, bool gradients) const {
  int64_t total = 0;
  for (uint32_t stage = 1; stage < problem.sections[s].stages.size(); ++stage) {
    int64_t there = 0, back = 0;
    for (uint32_t e : index.edgesIn[index.place(s, stage)])
      if (index.edges[e].producer == s && index.edges[e].producerStage + 1 == stage) {
        there = std::max(there, constantNs(problem.edges[e].transfer));
        if (gradients && index.edges[e].gradient)
          back = std::max(back, constantNs(problem.edges[e].gradientTransfer));
      }
    total = addSaturated(total, addSaturated(there, back));
  }
  return total;
}

/// What each of the section's stages costs at least, in PipelineFacts' terms, and by sample in `shares`, rounded up.
PipelineFacts LowerBound::measurePipeline(const Problem &problem, uint32_t s) {
  const Section &section = problem.sections[s];
  size_t samples = problem.sampleCount(), dims = problem.dims.size();
  findCommonCost(section, &Stage::forward, common);
  findCommonCost(section, &Stage::backward, commonBackward);
  findCommonCost(section, &Stage::weightGradient, commonWeight);
  const std::array<const Cost *, 3> kinds = {&common, &commonBackward, &commonWeight};
  auto each = std::span(kinds).first(section.splitsBackward ? 3 : 2);
  PipelineFacts facts;
  facts.forwardPart = facts.backwardPart = PipelineFacts::wholePart;
  facts.forwardNs = constantNs(common);
  facts.backwardNs = constantNs(commonBackward) + (section.splitsBackward ? constantNs(commonWeight) : 0);
  shares.assign(samples, 0);
  for (const Cost *cost : each)
    for (const CostTerm &term : cost->terms) {
      int64_t allPs = 0;
      for (const Cost *other : each)
        allPs = addSaturated(allPs, psOf(*other, term.dims));
      if (!hasSummedDim(problem.dims, term) || allPs == 0)
        continue;
      facts.forwardPart = std::min(facts.forwardPart, partOf(psOf(common, term.dims), allPs));
      facts.backwardPart = std::min(facts.backwardPart, partOf(psOf(commonBackward, term.dims), allPs));
      for (size_t i = 0; i < samples; ++i)
        if (active[s * samples + i])
          shares[i] = addSaturated(shares[i], termPs(term, aloneDims.data() + i * dims));
    }
  for (size_t i = 0; i < samples; ++i)
    if (active[s * samples + i]) {
      ++facts.mostBatches;
      facts.workNs = addSaturated(facts.workNs, shares[i] / 1000);
      shares[i] = shares[i] / 1000 + 1;
    }
  facts.mostNs = mostInOne(problem, s);
  return facts;
}

/// Before the first sample reaches the section's first stage, and after the last has left it, backward where it trains.
int64_t LowerBound::endsNs(const Problem &problem, const ProblemIndex &index, uint32_t s, bool drains) const {
  size_t samples = problem.sampleCount(), first = index.firstPlace[s] * samples,
         last = (index.firstPlace[s + 1] - 1) * samples;
  int64_t head = never, tail = never;
  for (size_t i = 0; i < samples; ++i)
    if (active[s * samples + i]) {
      head = std::min(head, headNs[first + i]);
      tail = std::min(tail, problem.sections[s].trains ? tailBackwardNs[first + i] : tailForwardNs[last + i]);
    }
  return head + (drains ? tail : 0);
}

/// A replica of stages that train (pipeline_flow.cpp has the proof). One of them has at least the mean of all work.
int64_t LowerBound::trainedBound(const Problem &problem, const ProblemIndex &index, uint32_t s, int64_t known) {
  const Section &section = problem.sections[s];
  if (!section.trains || section.stages.size() < 2 || !isChain(problem, index, s, false))
    return 0;
  PipelineFacts facts = measurePipeline(problem, s);
  if (facts.mostBatches == 0)
    return 0;
  facts.stages = static_cast<int64_t>(section.stages.size());
  facts.workNs /= static_cast<int64_t>(section.devices.size());
  facts.drains = !section.splitsBackward && isChain(problem, index, s, true);
  facts.aroundNs = addSaturated(endsNs(problem, index, s, facts.drains), hopsNs(problem, index, s, facts.drains));
  return flow.bound(facts, known);
}

} // namespace maestro::wavefront
