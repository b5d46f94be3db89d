#include "executor/wavefront/lower_bound.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace maestro::wavefront {
namespace {

constexpr int64_t never = std::numeric_limits<int64_t>::max();

bool hasSummedDim(const Problem &problem, const CostTerm &term) {
  return std::any_of(term.dims.begin(), term.dims.end(), [&](uint32_t dim) { return problem.dims[dim].sum; });
}

/// Saturates far above any sum that check() lets through, far below overflow.
int64_t termPs(const CostTerm &term, const int64_t *dims) {
  int64_t value = term.picoseconds;
  for (uint32_t dim : term.dims)
    if (dims[dim] == 0)
      return 0;
  for (uint32_t dim : term.dims)
    if (__builtin_mul_overflow(value, dims[dim], &value))
      return never;
  return value;
}

/// Rounding down keeps a bound a bound; saturated sums are bounds too.
int64_t addSaturated(int64_t left, int64_t right) {
  return __builtin_add_overflow(left, right, &left) ? never : left;
}

} // namespace

void LowerBound::measureSamples(const Problem &problem, const ProblemIndex &index) {
  size_t samples = problem.sampleCount(), dims = problem.dims.size(), places = index.sectionOfPlace.size();
  aloneDims.resize(samples * dims);
  for (size_t i = 0; i < samples * dims; ++i)
    aloneDims[i] = alone(problem.dims[i % dims], problem.sizes[i]);
  active.resize(problem.sections.size() * samples);
  for (size_t s = 0; s < problem.sections.size(); ++s)
    for (size_t i = 0; i < samples; ++i)
      active[s * samples + i] = takesPart(problem.sections[s], problem.sizes.data() + i * dims);
  for (auto *times : {&forwardNs, &backwardNs, &weightNs, &headNs, &tailForwardNs, &tailBackwardNs})
    times->assign(places * samples, 0);
  for (size_t p = 0; p < places; ++p) {
    uint32_t s = index.sectionOfPlace[p];
    const Section &section = problem.sections[s];
    const Stage &stage = section.stages[p - index.firstPlace[s]];
    for (size_t i = 0; i < samples; ++i) {
      if (!active[s * samples + i])
        continue;
      const int64_t *sizes = aloneDims.data() + i * dims;
      forwardNs[p * samples + i] = evaluate(stage.forward, sizes);
      if (section.trains)
        backwardNs[p * samples + i] = evaluate(stage.backward, sizes);
      if (section.splitsBackward)
        weightNs[p * samples + i] = evaluate(stage.weightGradient, sizes);
    }
  }
}

/// Places are numbered producers first, so that one walk up and one walk down do.
void LowerBound::measurePaths(const Problem &problem, const ProblemIndex &index) {
  size_t samples = problem.sampleCount(), dims = problem.dims.size(), places = index.sectionOfPlace.size();
  auto forEachBoth = [&](uint32_t e, auto visit) {
    const EdgeFacts &edge = index.edges[e];
    for (size_t i = 0; i < samples; ++i)
      if (active[edge.producer * samples + i] && active[edge.consumer * samples + i])
        visit(i);
  };
  for (size_t p = 0; p < places; ++p) {
    if (problem.sections[index.sectionOfPlace[p]].splitsBackward)
      std::copy_n(weightNs.begin() + static_cast<int64_t>(p * samples), samples,
                  tailBackwardNs.begin() + static_cast<int64_t>(p * samples));
    for (uint32_t e : index.edgesIn[p]) {
      const EdgeFacts &edge = index.edges[e];
      size_t from = index.place(edge.producer, edge.producerStage);
      forEachBoth(e, [&](size_t i) {
        const int64_t *sizes = aloneDims.data() + i * dims;
        size_t here = p * samples + i, there = from * samples + i;
        headNs[here] = std::max(headNs[here], headNs[there] + forwardNs[there] + evaluate(problem.edges[e].transfer, sizes));
        if (edge.gradient)
          tailBackwardNs[here] = std::max(tailBackwardNs[here], evaluate(problem.edges[e].gradientTransfer, sizes) +
                                                                    backwardNs[there] + tailBackwardNs[there]);
      });
    }
  }
  for (size_t p = places; p-- > 0;) {
    for (size_t i = p * samples; i < (p + 1) * samples; ++i)
      tailForwardNs[i] = backwardNs[i] + tailBackwardNs[i];
    for (uint32_t e : index.edgesOut[p]) {
      const EdgeFacts &edge = index.edges[e];
      size_t to = index.place(edge.consumer, edge.consumerStage);
      forEachBoth(e, [&](size_t i) {
        size_t here = p * samples + i, there = to * samples + i;
        tailForwardNs[here] =
            std::max(tailForwardNs[here], evaluate(problem.edges[e].transfer, aloneDims.data() + i * dims) +
                                              forwardNs[there] + tailForwardNs[there]);
      });
    }
  }
}

int64_t LowerBound::leastGroups(const Problem &problem, uint32_t section) const {
  size_t samples = problem.sampleCount(), dims = problem.dims.size();
  const Section &rules = problem.sections[section];
  int64_t count = 0, least = 0;
  for (size_t i = 0; i < samples; ++i)
    count += active[section * samples + i];
  least = (count + rules.maxSamples - 1) / rules.maxSamples;
  for (size_t d = 0; d < dims; ++d) {
    if (!problem.dims[d].sum || rules.capacity[d] == 0)
      continue;
    int64_t total = 0;
    for (size_t i = 0; i < samples; ++i)
      total += active[section * samples + i] ? aloneDims[i * dims + d] : 0;
    least = std::max(least, total / rules.capacity[d] + (total % rules.capacity[d] != 0));
  }
  for (const Area &area : rules.areas) { // Rows times the longest of them is at least the sum of rows times lengths.
    int64_t total = 0;
    for (size_t i = 0; i < samples && area.capacity > 0; ++i)
      if (active[section * samples + i])
        total = addSaturated(total, aloneDims[i * dims + area.rows] * aloneDims[i * dims + area.padded]);
    least = std::max(least, total == 0 ? 0 : (total - 1) / area.capacity + 1);
  }
  return least;
}

/// A term's total over all micro-batches, in whatever way they are formed.
int64_t LowerBound::groupWorkPs(const Problem &problem, uint32_t section, const CostTerm &term) {
  size_t samples = problem.sampleCount(), dims = problem.dims.size();
  int64_t total = 0;
  if (hasSummedDim(problem, term)) {
    for (size_t i = 0; i < samples; ++i)
      if (active[section * samples + i])
        total = addSaturated(total, termPs(term, aloneDims.data() + i * dims));
    return total;
  }
  // Largest first, in groups as large as allowed: no grouping has a smaller sum of maxima. The groups that other
  // capacities enforce cost at least the smallest sample's.
  values.clear();
  for (size_t i = 0; i < samples; ++i)
    if (active[section * samples + i])
      values.push_back(termPs(term, aloneDims.data() + i * dims));
  if (values.empty())
    return 0;
  if (!term.dims.empty())
    std::sort(values.begin(), values.end(), std::greater<>());
  int64_t groups = 0;
  size_t most = static_cast<size_t>(std::min(problem.sections[section].maxSamples, static_cast<int64_t>(values.size())));
  for (size_t i = 0; i < values.size(); i += most, ++groups)
    total = addSaturated(total, values[i]);
  for (int64_t least = leastGroups(problem, section); groups < least; ++groups)
    total = addSaturated(total, values.back());
  return total;
}

void LowerBound::measureWork(const Problem &problem, const ProblemIndex &index) {
  workNs.clear();
  weightWorkNs.clear();
  for (size_t p = 0; p < index.sectionOfPlace.size(); ++p) {
    uint32_t s = index.sectionOfPlace[p];
    const Section &section = problem.sections[s];
    const Stage &stage = section.stages[p - index.firstPlace[s]];
    auto totalPs = [&](const Cost &cost) {
      int64_t total = 0;
      for (const CostTerm &term : cost.terms)
        total = addSaturated(total, groupWorkPs(problem, s, term));
      return total;
    };
    int64_t weightPs = section.splitsBackward ? totalPs(stage.weightGradient) : 0;
    int64_t ps = addSaturated(totalPs(stage.forward), section.trains ? totalPs(stage.backward) : 0);
    workNs.push_back(addSaturated(ps, weightPs) / 1000);
    weightWorkNs.push_back(weightPs / 1000 + 1);
  }
}

/// heads and tails are sorted. However many of the machines take part, their starts, work and tails fit below the
/// makespan, on average and so for the worst.
int64_t LowerBound::pooled(int64_t work, size_t machines, size_t samples) {
  int64_t bound = never, both = 0;
  for (size_t used = 1; used <= std::min(machines, samples); ++used) {
    both += heads[used - 1] + tails[used - 1];
    int64_t total = both + work, count = static_cast<int64_t>(used);
    bound = std::min(bound, total / count + (total % count != 0));
  }
  return bound == never ? 0 : bound;
}

int64_t LowerBound::placeBound(const Problem &problem, const ProblemIndex &index, uint32_t place) {
  size_t samples = problem.sampleCount(), offset = place * samples;
  uint32_t s = index.sectionOfPlace[place], stage = place - index.firstPlace[s];
  const Section &section = problem.sections[s];
  seen.assign(problem.devices, 0);
  size_t machines = 0;
  for (const std::vector<uint32_t> &replica : section.devices)
    machines += !std::exchange(seen[replica[stage]], 1);
  int64_t path = 0;
  heads.clear();
  tails.clear();
  for (size_t i = 0; i < samples; ++i) {
    if (!active[s * samples + i])
      continue;
    path = std::max(path, headNs[offset + i] + forwardNs[offset + i] + tailForwardNs[offset + i]);
    heads.push_back(headNs[offset + i]);
    tails.push_back(!section.trains           ? tailForwardNs[offset + i]
                    : section.splitsBackward ? 0
                                             : tailBackwardNs[offset + i]);
  }
  size_t first = std::min(machines, heads.size());
  auto smallest = [&](std::vector<int64_t> &times) {
    std::partial_sort(times.begin(), times.begin() + static_cast<int64_t>(first), times.end());
  };
  smallest(heads);
  smallest(tails);
  int64_t bound = std::max(path, pooled(workNs[place], machines, heads.size()));
  if (!section.splitsBackward)
    return bound;
  // A weight gradient may come last and has no tail; what comes before the last backward task has one.
  tails.clear();
  for (size_t i = 0; i < samples; ++i)
    if (active[s * samples + i])
      tails.push_back(tailBackwardNs[offset + i]);
  smallest(tails);
  return std::max(bound, pooled(std::max<int64_t>(0, workNs[place] - weightWorkNs[place]), machines, heads.size()));
}

/// Whether each stage's forward tasks wait for the ones before.
bool LowerBound::isChain(const Problem &problem, const ProblemIndex &index, uint32_t s) const {
  for (uint32_t stage = 1; stage < problem.sections[s].stages.size(); ++stage) {
    std::span<const uint32_t> in = index.edgesIn[index.place(s, stage)];
    if (std::none_of(in.begin(), in.end(), [&](uint32_t e) {
          return index.edges[e].producer == s && index.edges[e].producerStage + 1 == stage;
        }))
      return false;
  }
  return true;
}

/// A polynomial that is nowhere more than any stage's: of each product of dims that all have, the smallest coefficient.
void LowerBound::findCommonCost(const Section &section) {
  size_t count = 0;
  auto find = [](const std::vector<CostTerm> &terms, size_t size, const std::vector<uint32_t> &dims) {
    auto end = terms.begin() + static_cast<int64_t>(size);
    return std::find_if(terms.begin(), end, [&](const CostTerm &term) { return term.dims == dims; }) - terms.begin();
  };
  for (const CostTerm &term : section.stages[0].forward.terms) {
    if (static_cast<size_t>(find(common.terms, count, term.dims)) < count)
      continue; // Once is less than all of it.
    if (count == common.terms.size())
      common.terms.emplace_back();
    CostTerm &made = common.terms[count++];
    made.picoseconds = term.picoseconds;
    made.dims.assign(term.dims.begin(), term.dims.end());
    for (const Stage &stage : section.stages) {
      const std::vector<CostTerm> &terms = stage.forward.terms;
      size_t same = static_cast<size_t>(find(terms, terms.size(), term.dims));
      made.picoseconds = std::min(made.picoseconds, same == terms.size() ? 0 : terms[same].picoseconds);
    }
  }
  for (; count < common.terms.size(); ++count) // Kept for their memory.
    common.terms[count].picoseconds = 0;
}

void LowerBound::measureWays(const Problem &problem, const ProblemIndex &index, uint32_t s) {
  size_t samples = problem.sampleCount(), dims = problem.dims.size(), stages = problem.sections[s].stages.size();
  findCommonCost(problem.sections[s]);
  int64_t sharedPs = 0;
  for (const CostTerm &term : common.terms)
    if (!hasSummedDim(problem, term))
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
      if (hasSummedDim(problem, term))
        workPs = addSaturated(workPs, termPs(term, aloneDims.data() + i * dims));
    ways.push_back({all - shortest, workPs / 1000});
    allWorkNs += workPs / 1000;
  }
  std::sort(ways.begin(), ways.end(), [](const Way &a, const Way &b) { return a.aroundNs > b.aroundNs; });
}

/// Whether the replicas might do all work within so long, where one that has a sample works for its `aroundNs` less. The replica
/// with the longest way takes the next ones too, as many as it can; the first that it cannot is on another; and so on.
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

/// Take any micro-batch of a replica's. Before it, the first stage does what precedes it there; it then passes all stages; after it,
/// the last one does what follows it there. What is neither overtakes it between two stages i and i + 1: all those on i after it, and
/// the last of them on i + 1, while it waits. So the replica takes, one after the other, each micro-batch's time in some stage, and
/// this one's in all the others; which is most for the one with the longest sample. (As in a proportionate flow shop: Pinedo,
/// Scheduling, section 6.1.)
int64_t LowerBound::pipelineBound(const Problem &problem, const ProblemIndex &index, uint32_t s, int64_t known) {
  const Section &section = problem.sections[s];
  size_t samples = problem.sampleCount(), stages = section.stages.size(), replicas = section.devices.size();
  if (section.trains || stages < 2 || !isChain(problem, index, s))
    return 0;
  measureWays(problem, index, s);
  if (ways.empty())
    return 0;
  int64_t head = never, tail = never;
  for (size_t i = 0; i < samples; ++i)
    if (active[s * samples + i]) {
      head = std::min(head, headNs[index.firstPlace[s] * samples + i]);
      tail = std::min(tail, tailForwardNs[(index.firstPlace[s] + stages - 1) * samples + i]);
    }
  int64_t ends = head + tail, low = std::max<int64_t>(0, known - ends - 1), high = allWorkNs + ways[0].aroundNs;
  if (flowsWithin(low + 1, replicas))
    return 0;
  while (high - low > 1) { // Longer than `low`, not longer than `high`.
    int64_t middle = low + (high - low) / 2;
    (flowsWithin(middle, replicas) ? high : low) = middle;
  }
  return high + ends;
}

/// Devices that share sections, as one pool.
int64_t LowerBound::devicesBound(const Problem &problem, const ProblemIndex &index) {
  component.resize(problem.devices);
  for (uint32_t d = 0; d < problem.devices; ++d)
    component[d] = d;
  auto find = [&](uint32_t device) {
    while (component[device] != device)
      device = component[device] = component[component[device]];
    return device;
  };
  for (const Section &section : problem.sections)
    for (size_t stage = 0; stage < section.stages.size(); ++stage)
      for (const std::vector<uint32_t> &replica : section.devices)
        component[find(replica[stage])] = find(section.devices[0][stage]);
  heads.assign(problem.devices, 0); // Work, by component,
  tails.assign(problem.devices, 0); // and its devices.
  for (uint32_t p = 0; p < index.sectionOfPlace.size(); ++p) {
    uint32_t s = index.sectionOfPlace[p];
    heads[find(problem.sections[s].devices[0][p - index.firstPlace[s]])] += workNs[p];
  }
  for (uint32_t d = 0; d < problem.devices; ++d)
    ++tails[find(d)];
  int64_t bound = 0;
  for (uint32_t d = 0; d < problem.devices; ++d)
    if (heads[d] > 0)
      bound = std::max(bound, (heads[d] + tails[d] - 1) / tails[d]);
  return bound;
}

int64_t LowerBound::compute(const Problem &problem, const ProblemIndex &index) {
  if (problem.sampleCount() == 0)
    return 0;
  measureSamples(problem, index);
  measurePaths(problem, index);
  measureWork(problem, index);
  int64_t bound = devicesBound(problem, index);
  for (uint32_t p = 0; p < index.sectionOfPlace.size(); ++p)
    bound = std::max(bound, placeBound(problem, index, p));
  for (uint32_t s = 0; s < problem.sections.size(); ++s)
    bound = std::max(bound, pipelineBound(problem, index, s, bound));
  return bound;
}

int64_t lowerBound(const Problem &problem) {
  ProblemIndex index;
  index.build(problem);
  return LowerBound().compute(problem, index);
}

} // namespace maestro::wavefront
