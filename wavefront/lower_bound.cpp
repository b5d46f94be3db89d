#include "wavefront/lower_bound.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace maestro::wavefront {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

bool hasSummedDim(const std::vector<Dim> &dims, const CostTerm &term) {
  return std::any_of(term.dims.begin(), term.dims.end(), [&](uint32_t dim) { return dims[dim].sum; });
}

/// Saturates far above any sum that check() lets through, far below overflow.
int64_t termPs(const CostTerm &term, const int64_t *dims) {
  int64_t value = term.picoseconds;
  for (uint32_t dim : term.dims)
    if (dims[dim] == 0)
      return 0;
  for (uint32_t dim : term.dims)
    if (__builtin_mul_overflow(value, dims[dim], &value))
      return kNever;
  return value;
}

/// Rounding down keeps a bound a bound; saturated sums are bounds too.
int64_t addSaturated(int64_t left, int64_t right) { return __builtin_add_overflow(left, right, &left) ? kNever : left; }

} // namespace

void LowerBound::measureSamples(const Problem &problem, const ProblemIndex &index) {
  size_t samples = problem.sampleCount(), dims = problem.dims.size(), stages = index.sectionOfStage.size();
  aloneDims.resize(samples * dims);
  for (size_t i = 0; i < samples * dims; ++i)
    aloneDims[i] = alone(problem.dims[i % dims], problem.sizes[i]);
  active.resize(problem.sections.size() * samples);
  for (size_t s = 0; s < problem.sections.size(); ++s)
    for (size_t i = 0; i < samples; ++i)
      active[s * samples + i] = takesPart(problem.sections[s], problem.sizes.data() + i * dims);
  for (auto *times : {&forwardNs, &backwardNs, &weightNs, &headNs, &tailForwardNs, &tailBackwardNs})
    times->assign(stages * samples, 0);
  for (size_t p = 0; p < stages; ++p) {
    uint32_t s = index.sectionOfStage[p];
    const Section &section = problem.sections[s];
    const Stage &stage = section.stages[p - index.firstStage[s]];
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

/// Stages are numbered producers first, so that one walk up and one walk down do.
void LowerBound::measurePaths(const Problem &problem, const ProblemIndex &index) {
  size_t samples = problem.sampleCount(), dims = problem.dims.size(), stages = index.sectionOfStage.size();
  auto forEachBoth = [&](uint32_t e, auto visit) {
    const EdgeFacts &edge = index.edges[e];
    for (size_t i = 0; i < samples; ++i)
      if (active[edge.producer * samples + i] && active[edge.consumer * samples + i])
        visit(i);
  };
  for (size_t p = 0; p < stages; ++p) {
    if (problem.sections[index.sectionOfStage[p]].splitsBackward)
      std::copy_n(weightNs.begin() + static_cast<int64_t>(p * samples), samples,
                  tailBackwardNs.begin() + static_cast<int64_t>(p * samples));
    for (uint32_t e : index.edgesIn[p]) {
      const EdgeFacts &edge = index.edges[e];
      size_t from = index.stageId(edge.producer, edge.producerStage);
      forEachBoth(e, [&](size_t i) {
        const int64_t *sizes = aloneDims.data() + i * dims;
        size_t here = p * samples + i, there = from * samples + i;
        headNs[here] =
            std::max(headNs[here], headNs[there] + forwardNs[there] + evaluate(problem.edges[e].transfer, sizes));
        if (edge.gradient)
          tailBackwardNs[here] = std::max(tailBackwardNs[here], evaluate(problem.edges[e].gradientTransfer, sizes) +
                                                                    backwardNs[there] + tailBackwardNs[there]);
      });
    }
  }
  for (size_t p = stages; p-- > 0;) {
    for (size_t i = p * samples; i < (p + 1) * samples; ++i)
      tailForwardNs[i] = backwardNs[i] + tailBackwardNs[i];
    for (uint32_t e : index.edgesOut[p]) {
      const EdgeFacts &edge = index.edges[e];
      size_t to = index.stageId(edge.consumer, edge.consumerStage);
      forEachBoth(e, [&](size_t i) {
        size_t here = p * samples + i, there = to * samples + i;
        tailForwardNs[here] =
            std::max(tailForwardNs[here], evaluate(problem.edges[e].transfer, aloneDims.data() + i * dims) +
                                              forwardNs[there] + tailForwardNs[there]);
      });
    }
  }
}

int64_t LowerBound::minGroups(const Problem &problem, uint32_t section) const {
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
  if (hasSummedDim(problem.dims, term)) {
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
  size_t most =
      static_cast<size_t>(std::min(problem.sections[section].maxSamples, static_cast<int64_t>(values.size())));
  for (size_t i = 0; i < values.size(); i += most, ++groups)
    total = addSaturated(total, values[i]);
  for (int64_t least = minGroups(problem, section); groups < least; ++groups)
    total = addSaturated(total, values.back());
  return total;
}

void LowerBound::measureWork(const Problem &problem, const ProblemIndex &index) {
  workNs.clear();
  firmWorkNs.clear();
  for (size_t p = 0; p < index.sectionOfStage.size(); ++p) {
    uint32_t s = index.sectionOfStage[p];
    const Section &section = problem.sections[s];
    const Stage &stage = section.stages[p - index.firstStage[s]];
    if (index.costsAsBefore[p]) {
      workNs.push_back(workNs.back());
      firmWorkNs.push_back(firmWorkNs.back());
      continue;
    }
    const std::array<const Cost *, 3> kinds = {&stage.forward, &stage.backward, &stage.weightGradient};
    auto totalNs = [&](size_t count) {
      int64_t total = 0;
      for (const Cost *cost : std::span(kinds).first(count))
        for (const CostTerm &term : cost->terms)
          total = addSaturated(total, groupWorkPs(problem, s, term));
      return total / 1000;
    };
    workNs.push_back(totalNs(section.splitsBackward ? 3 : section.trains ? 2 : 1));
    firmWorkNs.push_back(section.splitsBackward ? totalNs(2) : workNs.back());
  }
}

/// heads and tails are sorted. However many of the machines take part, their starts, work and tails fit below the
/// makespan, on average and so for the worst.
int64_t LowerBound::pooled(int64_t work, size_t machines, size_t samples) {
  int64_t bound = kNever, both = 0;
  for (size_t used = 1; used <= std::min(machines, samples); ++used) {
    both += heads[used - 1] + tails[used - 1];
    int64_t total = both + work, count = static_cast<int64_t>(used);
    bound = std::min(bound, total / count + (total % count != 0));
  }
  return bound == kNever ? 0 : bound;
}

/// Devices that run a section's stage.
int64_t LowerBound::machinesAt(const Problem &problem, uint32_t section, uint32_t stage) {
  int64_t machines = 0;
  seen.assign(problem.devices, 0);
  for (const std::vector<uint32_t> &replica : problem.sections[section].devices)
    machines += !std::exchange(seen[replica[stage]], 1);
  return machines;
}

int64_t LowerBound::stageBound(const Problem &problem, const ProblemIndex &index, uint32_t stageId) {
  size_t samples = problem.sampleCount(), offset = stageId * samples;
  uint32_t s = index.sectionOfStage[stageId], stage = stageId - index.firstStage[s];
  const Section &section = problem.sections[s];
  size_t machines = static_cast<size_t>(machinesAt(problem, s, stage));
  int64_t path = 0;
  heads.clear();
  tails.clear();
  for (size_t i = 0; i < samples; ++i) {
    if (!active[s * samples + i])
      continue;
    path = std::max(path, headNs[offset + i] + forwardNs[offset + i] + tailForwardNs[offset + i]);
    heads.push_back(headNs[offset + i]);
    tails.push_back(!section.trains          ? tailForwardNs[offset + i]
                    : section.splitsBackward ? 0
                                             : tailBackwardNs[offset + i]);
  }
  size_t first = std::min(machines, heads.size());
  auto smallest = [&](std::vector<int64_t> &times) {
    std::partial_sort(times.begin(), times.begin() + static_cast<int64_t>(first), times.end());
  };
  smallest(heads);
  smallest(tails);
  int64_t bound = std::max(path, pooled(workNs[stageId], machines, heads.size()));
  if (!section.splitsBackward)
    return bound;
  // A weight gradient may come last and has no tail; what comes before the last backward task has one.
  tails.clear();
  for (size_t i = 0; i < samples; ++i)
    if (active[s * samples + i])
      tails.push_back(tailBackwardNs[offset + i]);
  smallest(tails);
  return std::max(bound, pooled(firmWorkNs[stageId], machines, heads.size()));
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
  for (uint32_t p = 0; p < index.sectionOfStage.size(); ++p) {
    uint32_t s = index.sectionOfStage[p];
    heads[find(problem.sections[s].devices[0][p - index.firstStage[s]])] += workNs[p];
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
  for (uint32_t p = 0; p < index.sectionOfStage.size(); ++p)
    bound = std::max(bound, stageBound(problem, index, p));
  return bound;
}

int64_t lowerBound(const Problem &problem) {
  ProblemIndex index;
  index.build(problem);
  return LowerBound().compute(problem, index);
}

} // namespace maestro::wavefront
