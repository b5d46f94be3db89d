#include "executor/wavefront/regroup.h"

#include <algorithm>
#include <array>

namespace maestro::wavefront {
namespace {

constexpr int64_t whole = int64_t{1} << 32; ///< The flow's end.

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

/// part / total of the flow, without overflow.
int64_t fraction(int64_t part, int64_t total) {
  return static_cast<int64_t>(static_cast<unsigned __int128>(part) * whole /
                              static_cast<unsigned __int128>(std::max<int64_t>(1, total)));
}

/// The i-th of `count` things that are sorted largest first: up to the largest with every second one, and down again.
uint32_t onMountain(uint32_t i, uint32_t count) { return i < count / 2 ? 2 * (count / 2 - i) - 1 : 2 * (i - count / 2); }

int64_t replicas(const Problem &problem, uint32_t section) {
  return static_cast<int64_t>(problem.sections[section].devices.size());
}

} // namespace

void Regrouper::prepareSection(const Problem &problem, uint32_t s) {
  const Section &section = problem.sections[s];
  size_t samples = problem.sampleCount(), dims = problem.dims.size();
  Cost &cost = total[s];
  for (CostTerm &term : cost.terms) {
    term.picoseconds = 0;
    term.dims.clear();
  }
  size_t terms = 0;
  for (const Stage &stage : section.stages) {
    addTerms(cost, terms, stage.forward);
    if (section.trains)
      addTerms(cost, terms, stage.backward);
    if (section.splitsBackward)
      addTerms(cost, terms, stage.weightGradient);
  }
  held.assign(dims, 0);
  constantNs[s] = evaluate(cost, held.data());
  for (const CostTerm &term : cost.terms)
    for (uint32_t dim : term.dims)
      held[dim] = !problem.dims[dim].sum;
  pads[s] = std::count(held.begin(), held.end(), 1) > 0;
  for (size_t i = 0; i < samples; ++i) {
    const int64_t *sizes = aloneDims.data() + i * dims;
    int64_t &alone = aloneNs[s * samples + i];
    alone = -1;
    if (!takesPart(section, problem.sizes.data() + i * dims))
      continue;
    alone = evaluate(cost, sizes);
    ++activeCount[s];
    sectionNs[s] += alone;
    largestNs[s] = std::max(largestNs[s], alone);
    signature[i] |= uint64_t{1} << (s & 63);
    int64_t key = 0; // The dims that pad: the first decides, the others break ties.
    for (size_t d = 0; d < dims; ++d)
      if (held[d])
        key = (key & 0xffffffff) * 4096 + std::min<int64_t>(sizes[d] / problem.dims[d].multipleOf, 0xffffffff);
    lengthKey[s * samples + i] = key;
  }
}

void Regrouper::chooseTrunk(const Problem &problem, const ProblemIndex &index) {
  std::array<int64_t, 3> best = {-1, -1, -1};
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    int64_t neighbours = std::count_if(index.pairs.begin(), index.pairs.end(), [&](const ProblemIndex::Pair &pair) {
      return pair.producer == s || pair.consumer == s;
    });
    int64_t stations = replicas(problem, s) * static_cast<int64_t>(problem.sections[s].stages.size());
    std::array<int64_t, 3> rank = {activeCount[s], neighbours, sectionNs[s] / stations};
    if (rank > best)
      trunk = s, best = rank;
    mostPace = std::max(mostPace, (activeCount[s] + replicas(problem, s) - 1) / replicas(problem, s));
  }
}

void Regrouper::prepare(const Problem &problem, const ProblemIndex &index) {
  size_t samples = problem.sampleCount(), sections = problem.sections.size();
  if (total.size() < sections)
    total.resize(sections);
  for (auto *numbers : {&constantNs, &sectionNs, &largestNs, &activeCount})
    numbers->assign(sections, 0);
  pads.assign(sections, 0);
  aloneNs.resize(sections * samples);
  lengthKey.assign(sections * samples, 0);
  signature.assign(samples, 0);
  aloneDims.resize(problem.sizes.size());
  for (size_t i = 0; i < samples; ++i)
    for (size_t d = 0; d < problem.dims.size(); ++d)
      aloneDims[i * problem.dims.size() + d] = alone(problem.dims[d], problem.sizes[i * problem.dims.size() + d]);
  for (uint32_t s = 0; s < sections; ++s)
    prepareSection(problem, s);
  mostPace = 1;
  trunk = 0;
  chooseTrunk(problem, index);
  prepareLimits(problem, index);
  beforeNs.assign(samples, 0);
  aroundNs.assign(samples, 0);
  for (uint32_t s = 0; s < sections; ++s)
    for (size_t i = 0; s != trunk && i < samples; ++i)
      if (int64_t alone = aloneNs[s * samples + i]; alone > 0) {
        aroundNs[i] += alone;
        beforeNs[i] += s < trunk ? alone : 0;
      }
  order.clear();
  others.clear();
  for (uint32_t i = 0; i < samples; ++i)
    (aloneNs[trunk * samples + i] >= 0 ? order : others).push_back(i);
  const int64_t *key = lengthKey.data() + trunk * samples;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (signature[a] != signature[b])
      return signature[a] < signature[b];
    return key[a] != key[b] ? key[a] > key[b] : a < b;
  });
}

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
  trunkMost = problem.sections[trunk].capacity;
  trunkMostSamples = problem.sections[trunk].maxSamples;
  auto product = [](int64_t a, int64_t b) { return a != 0 && b > INT64_MAX / a ? INT64_MAX : a * b; };
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    spread[s] = std::max<int64_t>(1, spread[s] / 2);
    pieces[s] = std::max<int64_t>(1, pieces[s] / 2);
    if (s == trunk)
      continue;
    const Section &section = problem.sections[s];
    int64_t most = product(pieces[s], replicas(problem, s));
    trunkMostSamples = std::min(trunkMostSamples, product(most, section.maxSamples));
    for (size_t d = 0; d < problem.dims.size(); ++d)
      if (problem.dims[d].sum)
        trunkMost[d] = std::min(trunkMost[d], product(most, section.capacity[d]));
  }
}

/// How many micro-batches each section should form. The pace asks for so many a replica; what the others and their rings
/// can have on the way at a time may ask for fewer and larger ones (Little's law):
///  - a station has its own stages in flight and, where gradients come back, what the section below has in flight and one
///    that waits there, counted in its own micro-batches;
///  - while all replicas of a producer work, the consumer micro-batches that they feed must fit the rings; and likewise
///    for gradients.
void Regrouper::chooseCounts(const Problem &problem, const ProblemIndex &index, Recipe recipe) {
  size_t sections = problem.sections.size();
  counts.resize(sections);
  for (uint32_t s = 0; s < sections; ++s)
    counts[s] = std::max<int64_t>(1, std::min(activeCount[s], recipe.pace * replicas(problem, s))) * 256;
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
      limit(s, counts[c] * std::max<int64_t>(1, int64_t{edge.gradientDepth} - 1) * replicas(problem, s) / replicas(problem, c) / recipe.slack);
      below = std::max(below, (inFlight[c] + 256) * (counts[s] / replicas(problem, s)) / std::max<int64_t>(1, counts[c] / replicas(problem, c)));
    }
    inFlight[s] += below;
  }
}

/// How long a micro-batch may take. Below a few constants' worth it would only cost.
void Regrouper::chooseTimes(const Problem &problem, Recipe recipe) {
  groupNs.assign(problem.sections.size(), 0);
  for (size_t s = 0; s < problem.sections.size(); ++s)
    groupNs[s] = std::max({sectionNs[s] / counts[s] * 256, constantNs[s] * 8, recipe.alike ? largestNs[s] : 0});
}

/// In theory: constants grow with the number of micro-batches, filling and draining the longest chain with their size.
int64_t Regrouper::goodPace(const Problem &problem, const ProblemIndex &index) {
  int64_t best = 1, bestNs = INT64_MAX;
  for (int64_t pace = 1; pace < 2 * mostPace; pace = pace < 4 ? pace + 1 : pace * 5 / 4) {
    int64_t fullest = 0, longest = 0;
    chain.assign(problem.sections.size(), 0);
    for (uint32_t s = 0; s < problem.sections.size(); ++s) {
      int64_t count = std::max<int64_t>(1, std::min(activeCount[s], pace * replicas(problem, s)));
      int64_t work = sectionNs[s] - (activeCount[s] - std::min(count, activeCount[s])) * constantNs[s];
      int64_t stages = static_cast<int64_t>(problem.sections[s].stages.size());
      fullest = std::max(fullest, work / (replicas(problem, s) * stages));
      chain[s] += std::max(work / count, largestNs[s] / 2);
      longest = std::max(longest, chain[s]);
      for (const ProblemIndex::Pair &pair : index.pairs)
        if (pair.producer == s)
          chain[pair.consumer] = std::max(chain[pair.consumer], chain[s]);
    }
    if (fullest + longest < bestNs)
      bestNs = fullest + longest, best = pace;
  }
  return best;
}

void Regrouper::cutTrunk(const Problem &problem) {
  size_t samples = problem.sampleCount(), dims = problem.dims.size();
  int64_t mostSamples = std::min(problem.sections[trunk].maxSamples, trunkMostSamples);
  trunkGroups.clear();
  held.resize(2 * dims);
  int64_t *now = held.data(), *with = held.data() + dims;
  for (uint32_t i = 0; i < order.size(); ++i) {
    uint32_t sample = order[i];
    const int64_t *sizes = aloneDims.data() + sample * dims;
    bool fits = !trunkGroups.empty() && trunkGroups.back().signature == signature[sample] &&
                static_cast<int64_t>(trunkGroups.back().count) < mostSamples;
    for (size_t d = 0; fits && d < dims; ++d) {
      with[d] = problem.dims[d].sum ? now[d] + sizes[d] : std::max(now[d], sizes[d]);
      fits = with[d] <= trunkMost[d];
    }
    int64_t work = fits ? evaluate(total[trunk], with) : 0;
    if (!fits || work > groupNs[trunk]) {
      trunkGroups.push_back({i, 0, 0, 0, signature[sample], 0, 0, 0, 0});
      std::copy_n(sizes, dims, with);
      work = aloneNs[trunk * samples + sample];
    }
    std::swap(now, with);
    TrunkGroup &group = trunkGroups.back();
    ++group.count;
    group.workNs = work;
    group.beforeNs = std::max(group.beforeNs, beforeNs[sample]);
    group.aroundNs = std::max(group.aroundNs, aroundNs[sample]);
  }
}

/// Each class of samples spread evenly over the flow, by work.
void Regrouper::interleave(Recipe recipe) {
  for (uint32_t first = 0, last; first < trunkGroups.size(); first = last) {
    int64_t work = 0, before = 0;
    for (last = first; last < trunkGroups.size() && trunkGroups[last].signature == trunkGroups[first].signature; ++last)
      work += trunkGroups[last].workNs;
    for (uint32_t i = 0; i < last - first; ++i) {
      TrunkGroup &group = trunkGroups[first + (recipe.shape == Recipe::Shape::Mountain ? onMountain(i, last - first) : i)];
      group.place = fraction(before + group.workNs / 2, work);
      before += group.workNs;
    }
  }
}

/// Goal chasing, as assembly lines are sequenced: of the classes of samples (in each of which lengths rise and fall like a
/// mountain), always the one whose next micro-batch leaves the sections' shares of work done least apart; fuller sections
/// count more.
void Regrouper::evenOut(const Problem &problem) {
  constexpr int64_t unitShare = 1 << 20;
  size_t sections = problem.sections.size(), samples = problem.sampleCount();
  needs.assign(trunkGroups.size() * sections, 0);
  for (size_t g = 0; g < trunkGroups.size(); ++g)
    for (uint32_t i = trunkGroups[g].first; i < trunkGroups[g].first + trunkGroups[g].count; ++i)
      for (size_t s = 0; s < sections; ++s)
        needs[g * sections + s] += std::max<int64_t>(0, aloneNs[s * samples + order[i]]);
  buckets.clear();
  for (uint32_t first = 0, last; first < trunkGroups.size(); first = last) {
    for (last = first; last < trunkGroups.size() && trunkGroups[last].signature == trunkGroups[first].signature;)
      ++last;
    buckets.push_back({first, first, last});
  }
  int64_t fullest = 1;
  weights.assign(sections, 0);
  for (uint32_t s = 0; s < sections; ++s) {
    weights[s] = sectionNs[s] / (replicas(problem, s) * static_cast<int64_t>(problem.sections[s].stages.size()));
    fullest = std::max(fullest, weights[s]);
  }
  for (int64_t &weight : weights)
    weight = std::max<int64_t>(1, fraction(weight, fullest) >> 24);
  progress.assign(sections, 0);
  auto share = [&](size_t s, int64_t work) { return work / std::max<int64_t>(1, sectionNs[s] / unitShare); };
  auto next = [&](const Bucket &bucket) { return bucket.first + onMountain(bucket.next - bucket.first, bucket.end - bucket.first); };
  int64_t step = whole / static_cast<int64_t>(trunkGroups.size() + 1);
  for (size_t i = 0; i < trunkGroups.size(); ++i) {
    Bucket *best = nullptr;
    int64_t least = INT64_MAX;
    for (Bucket &bucket : buckets) {
      if (bucket.next == bucket.end)
        continue;
      const int64_t *need = needs.data() + next(bucket) * sections;
      int64_t done = share(trunk, progress[trunk] + need[trunk]), differ = 0;
      for (size_t s = 0; s < sections; ++s) {
        int64_t ahead = (share(s, progress[s] + need[s]) - done) * weights[s] / 256;
        differ += ahead * ahead / 16;
      }
      if (differ < least)
        least = differ, best = &bucket;
    }
    uint32_t chosen = next(*best);
    ++best->next;
    for (size_t s = 0; s < sections; ++s)
      progress[s] += needs[chosen * sections + s];
    trunkGroups[chosen].place = static_cast<int64_t>(i) * step;
  }
}

/// The first micro-batches keep the trunk busy while the others' inputs are made, the last while the others' gradients are
/// used up: at each end as much work as one micro-batch has around the trunk, and never more than a quarter.
void Regrouper::pullEnds(const Problem &problem) {
  int64_t trunkWork = 0, around = 0;
  for (const TrunkGroup &group : trunkGroups)
    trunkWork += group.workNs;
  for (uint32_t s = 0; s < problem.sections.size(); ++s)
    around += s == trunk ? 0 : groupNs[s];
  size_t most = trunkGroups.size() / 4 + (trunkGroups.size() > 2);
  auto pull = [&](auto score, int64_t place, int64_t step) {
    int64_t cover = std::min(around * replicas(problem, trunk), trunkWork / 4);
    ranked.clear();
    for (uint32_t g = 0; g < trunkGroups.size(); ++g)
      if (trunkGroups[g].place >= 0 && trunkGroups[g].place <= whole)
        ranked.push_back({-score(trunkGroups[g]), -trunkGroups[g].workNs, g});
    std::make_heap(ranked.begin(), ranked.end()); // The least needy, then the shortest, on top.
    for (size_t pulled = 0; cover > 0 && pulled < most && !ranked.empty(); ++pulled) {
      std::pop_heap(ranked.begin(), ranked.end());
      TrunkGroup &group = trunkGroups[ranked.back().group];
      ranked.pop_back();
      group.place = place;
      place += step;
      cover -= group.workNs;
    }
  };
  pull([](const TrunkGroup &g) { return g.aroundNs; }, 2 * whole, -1);
  pull([](const TrunkGroup &g) { return g.beforeNs; }, -whole, 1);
}

void Regrouper::flowTrunk(const Problem &problem, Recipe recipe) {
  recipe.shape == Recipe::Shape::Even ? evenOut(problem) : interleave(recipe);
  if (recipe.ends)
    pullEnds(problem);
  ranked.clear();
  for (uint32_t g = 0; g < trunkGroups.size(); ++g)
    ranked.push_back({trunkGroups[g].place, 0, g});
  std::sort(ranked.begin(), ranked.end());
  flow.clear();
  for (const Ranked &entry : ranked)
    flow.push_back(entry.group);
}

uint32_t Regrouper::leastLoaded(size_t count) const {
  return static_cast<uint32_t>(std::min_element(loads.begin(), loads.begin() + static_cast<int64_t>(count)) - loads.begin());
}

/// In the flow's order to whichever replica is least loaded; that load is the micro-batch's time, which so never falls.
void Regrouper::dealTrunk(const Problem &problem) {
  size_t count = problem.sections[trunk].devices.size();
  loads.assign(count, 0);
  reach.assign(count, 0);
  int64_t work = 1;
  for (const TrunkGroup &group : trunkGroups)
    work += group.workNs;
  for (uint32_t g : flow) {
    TrunkGroup &group = trunkGroups[g];
    group.replica = leastLoaded(count);
    group.place = fraction(loads[group.replica], work / static_cast<int64_t>(count) + 1);
    loads[group.replica] += std::max<int64_t>(1, group.workNs);
    group.position = static_cast<uint32_t>(reach[group.replica]++);
  }
}

void Regrouper::formTrunk(const Problem &problem, Groups &groups) {
  groups.beginSection(problem);
  for (uint32_t g : flow) {
    const TrunkGroup &group = trunkGroups[g];
    groups.open(problem);
    groups.list.back().replica = group.replica;
    for (uint32_t i = group.first; i < group.first + group.count; ++i)
      groups.add(problem, order[i]);
    forwardKey.push_back(group.place);
    backwardKey.push_back(group.place);
  }
}

/// Whether all of `more` can join the section's last micro-batch.
bool Regrouper::joins(const Problem &problem, uint32_t s, std::span<const uint32_t> more, int64_t limit, const Groups &groups) {
  size_t dims = problem.dims.size();
  const MicroBatch &last = groups.list.back();
  const Section &section = problem.sections[s];
  if (static_cast<int64_t>(last.samples + more.size()) > section.maxSamples)
    return false;
  held.assign(groups.dims.begin() + last.firstDim, groups.dims.begin() + static_cast<int64_t>(last.firstDim + dims));
  for (uint32_t sample : more)
    for (size_t d = 0; d < dims; ++d) {
      int64_t value = aloneDims[sample * dims + d];
      held[d] = problem.dims[d].sum ? held[d] + value : std::max(held[d], value);
      if (held[d] > section.capacity[d])
        return false;
    }
  int64_t work = evaluate(total[s], held.data());
  if (work > limit)
    return false;
  if (!pads[s] || limit != groupNs[s] || counts[s] < freeCounts[s])
    return true;
  // Together they save constants and cost padding; where places in flight are few, that is their price.
  int64_t apart = evaluate(total[s], groups.dims.data() + last.firstDim);
  for (uint32_t sample : more)
    apart += aloneNs[s * problem.sampleCount() + sample];
  return work <= apart + apart / 16;
}

/// So that a trunk micro-batch falls into no more pieces than can be on the way at a time.
int64_t Regrouper::pieceLimit(const Problem &problem, uint32_t s) const {
  int64_t work = 0;
  if (pieces[s] > static_cast<int64_t>(unit.size()))
    return groupNs[s];
  if (pieces[s] * replicas(problem, s) == 1)
    return INT64_MAX;
  for (uint32_t sample : unit)
    work += aloneNs[s * problem.sampleCount() + sample];
  return std::max(groupNs[s], 2 * work / (pieces[s] * replicas(problem, s)));
}

/// `unit` as a whole into the last micro-batch, or into new ones of its own.
void Regrouper::addUnit(const Problem &problem, uint32_t s, const TrunkGroup *trunkGroup, Groups &groups) {
  uint32_t replica = trunkGroup ? trunkGroup->replica : 0;
  int64_t position = trunkGroup ? trunkGroup->position : 0;
  bool joined = !closed && (reach[replica] < 0 || position - reach[replica] < spread[s]) &&
                joins(problem, s, unit, groupNs[s], groups);
  if (!joined)
    reach.assign(reach.size(), -1);
  if (reach[replica] < 0)
    reach[replica] = position;
  size_t before = groups.list.size();
  int64_t limit = joined || !trunkGroup ? groupNs[s] : pieceLimit(problem, s);
  for (const uint32_t &sample : unit) {
    if (!joined && (groups.list.size() == before || !joins(problem, s, {&sample, 1}, limit, groups))) {
      groups.open(problem);
      forwardKey.push_back(unitTime);
      backwardKey.push_back(unitTime);
    }
    groups.add(problem, sample);
  }
  if (s > trunk) // Its inputs come last from the last.
    forwardKey.back() = unitTime;
  backwardKey.back() = unitTime;
  closed = groups.list.size() > before + 1; // It fell into several.
}

void Regrouper::formAlong(const Problem &problem, uint32_t s, Groups &groups) {
  const int64_t *work = aloneNs.data() + s * problem.sampleCount(), *key = lengthKey.data() + s * problem.sampleCount();
  groups.beginSection(problem);
  closed = true;
  reach.assign(problem.sections[trunk].devices.size(), -1);
  size_t beside = 0; // Samples that the trunk does not see flow evenly beside it.
  auto addOthers = [&](int64_t until) {
    for (; beside < others.size(); ++beside) {
      unitTime = fraction(2 * static_cast<int64_t>(beside) + 1, 2 * static_cast<int64_t>(others.size()));
      if (unitTime > until)
        return;
      if (work[others[beside]] < 0)
        continue;
      unit.assign(1, others[beside]);
      addUnit(problem, s, nullptr, groups);
    }
  };
  for (uint32_t g : flow) {
    const TrunkGroup &group = trunkGroups[g];
    addOthers(group.place);
    unit.clear();
    for (uint32_t i = group.first; i < group.first + group.count; ++i)
      if (work[order[i]] >= 0)
        unit.push_back(order[i]);
    if (unit.empty())
      continue;
    if (pads[s])
      std::sort(unit.begin(), unit.end(), [&](uint32_t a, uint32_t b) { return key[a] != key[b] ? key[a] > key[b] : a < b; });
    unitTime = group.place;
    addUnit(problem, s, &group, groups);
  }
  addOthers(whole);
  deal(problem, s, groups);
}

void Regrouper::deal(const Problem &problem, uint32_t s, Groups &groups) {
  size_t count = problem.sections[s].devices.size();
  loads.assign(count, 0);
  for (size_t g = groups.firstOfSection.back(); g < groups.list.size(); ++g) {
    uint32_t replica = leastLoaded(count);
    groups.list[g].replica = replica;
    loads[replica] += std::max<int64_t>(1, evaluate(total[s], groups.dims.data() + groups.list[g].firstDim));
  }
}

void Regrouper::listSamples(bool flowing, std::vector<uint32_t> &samples) const {
  samples.clear();
  if (!flowing)
    samples.assign(order.begin(), order.end());
  for (size_t i = 0; flowing && i < flow.size(); ++i) {
    auto first = order.begin() + trunkGroups[flow[i]].first;
    samples.insert(samples.end(), first, first + trunkGroups[flow[i]].count);
  }
  samples.insert(samples.end(), others.begin(), others.end());
}

void Regrouper::form(const Problem &problem, const ProblemIndex &index, Recipe recipe, Groups &groups) {
  forwardKey.clear();
  backwardKey.clear();
  chooseCounts(problem, index, recipe);
  chooseTimes(problem, recipe);
  cutTrunk(problem);
  flowTrunk(problem, recipe);
  dealTrunk(problem);
  groups.begin(problem);
  for (uint32_t s = 0; s < problem.sections.size(); ++s)
    s == trunk ? formTrunk(problem, groups) : formAlong(problem, s, groups);
  groups.finish(problem, index);
}

} // namespace maestro::wavefront
