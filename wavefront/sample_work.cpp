#include "wavefront/sample_work.h"

#include <array>

namespace maestro::wavefront {
namespace {

/// Adds to the first `count` terms of `to`; later ones are 0, kept for their memory.
void addTerms(Cost &to, size_t &count, const Cost &from) {
  for (const CostTerm &term : from.terms) {
    auto end = to.terms.begin() + static_cast<int64_t>(count);
    auto same = std::find_if(to.terms.begin(), end, [&](const CostTerm &t) { return t.dims == term.dims; });
    if (same != end) {
      if (__builtin_add_overflow(same->picoseconds, term.picoseconds, &same->picoseconds))
        same->picoseconds = INT64_MAX;
      continue;
    }
    if (count == to.terms.size())
      to.terms.emplace_back();
    to.terms[count].picoseconds = term.picoseconds;
    to.terms[count].dims.assign(term.dims.begin(), term.dims.end());
    ++count;
  }
}

} // namespace

void SampleWork::sumCosts(const Problem &problem, uint32_t s) {
  const Section &section = problem.sections[s];
  for (CostTerm &term : cost[s].terms) {
    term.picoseconds = 0;
    term.dims.clear();
  }
  size_t terms = 0;
  for (const Stage &stage : section.stages) {
    addTerms(cost[s], terms, stage.forward);
    if (section.trains)
      addTerms(cost[s], terms, stage.backward);
    if (section.splitsBackward)
      addTerms(cost[s], terms, stage.weightGradient);
  }
  padded.assign(problem.dims.size(), 0);
  constantNs[s] = evaluate(cost[s], padded.data());
  for (const CostTerm &term : cost[s].terms)
    for (uint32_t dim : term.dims)
      padded[dim] = !problem.dims[dim].sum;
  pads[s] = std::count(padded.begin(), padded.end(), 1) > 0;
}

void SampleWork::measureSection(const Problem &problem, uint32_t s) {
  size_t dims = problem.dims.size();
  sumCosts(problem, s);
  for (uint32_t i = 0; i < samples; ++i) {
    const int64_t *sizes = dimsOf(problem, i);
    int64_t &alone = aloneNs[s * samples + i];
    alone = -1;
    if (!takesPart(problem.sections[s], problem.sizes.data() + i * dims))
      continue;
    alone = evaluate(cost[s], sizes);
    ++activeCount[s];
    sectionNs[s] += alone;
    if (alone > longestNs[s])
      longestNs[s] = alone, longestSample[s] = i;
    needed[i] |= bit(s);
    int64_t key = 0; // The dims that pad: the first decides, the others break ties.
    for (size_t d = 0; d < dims; ++d)
      if (padded[d])
        key = (key & 0xffffffff) * 4096 + std::min<int64_t>(sizes[d] / problem.dims[d].multipleOf, 0xffffffff);
    lengthKey[s * samples + i] = key;
  }
}

/// The section that sees most samples; of those, the one with most neighbours, then with most work a station.
void SampleWork::chooseTrunk(const Problem &problem, const ProblemIndex &index) {
  std::array<int64_t, 3> best = {-1, -1, -1};
  trunk = 0;
  maxPerReplica = 1;
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    int64_t neighbours = std::count_if(index.pairs.begin(), index.pairs.end(), [&](const ProblemIndex::Pair &pair) {
      return pair.producer == s || pair.consumer == s;
    });
    std::array<int64_t, 3> rank = {activeCount[s], neighbours, stationNs(problem, s)};
    if (rank > best)
      trunk = s, best = rank;
    int64_t replicas = replicaCount(problem, s);
    maxPerReplica = std::max(maxPerReplica, (activeCount[s] + replicas - 1) / replicas);
  }
}

void SampleWork::measure(const Problem &problem, const ProblemIndex &index) {
  size_t sections = problem.sections.size(), dims = problem.dims.size();
  samples = problem.sampleCount();
  if (cost.size() < sections)
    cost.resize(sections);
  for (auto *numbers : {&constantNs, &sectionNs, &longestNs, &activeCount})
    numbers->assign(sections, 0);
  longestSample.assign(sections, 0);
  pads.assign(sections, 0);
  aloneNs.resize(sections * samples);
  lengthKey.assign(sections * samples, 0);
  needed.assign(samples, 0);
  aloneDims.resize(problem.sizes.size());
  for (size_t i = 0; i < samples; ++i)
    for (size_t d = 0; d < dims; ++d)
      aloneDims[i * dims + d] = alone(problem.dims[d], problem.sizes[i * dims + d]);
  for (uint32_t s = 0; s < sections; ++s)
    measureSection(problem, s);
  chooseTrunk(problem, index);
  beforeNs.assign(samples, 0);
  aroundNs.assign(samples, 0);
  inTrunk.clear();
  beside.clear();
  for (uint32_t i = 0; i < samples; ++i) {
    for (uint32_t s = 0; s < sections; ++s)
      if (int64_t ns = s == trunk ? 0 : std::max<int64_t>(0, aloneNs[s * samples + i]); ns > 0) {
        aroundNs[i] += ns;
        beforeNs[i] += s < trunk ? ns : 0;
      }
    (aloneNs[trunk * samples + i] >= 0 ? inTrunk : beside).push_back(i);
  }
}

} // namespace maestro::wavefront
