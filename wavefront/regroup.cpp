#include "wavefront/regroup_units.h"

#include <algorithm>
#include <array>
#include <utility>

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
  size_t largest = 0;
  for (size_t i = 0; i < samples; ++i) {
    const int64_t *sizes = aloneDims.data() + i * dims;
    int64_t &alone = aloneNs[s * samples + i];
    alone = -1;
    if (!takesPart(section, problem.sizes.data() + i * dims))
      continue;
    alone = evaluate(cost, sizes);
    ++activeCount[s];
    sectionNs[s] += alone;
    if (alone > largestNs[s])
      largestNs[s] = alone, largest = i;
    signature[i] |= sectionBit(s);
    int64_t key = 0; // The dims that pad: the first decides, the others break ties.
    for (size_t d = 0; d < dims; ++d)
      if (held[d])
        key = (key & 0xffffffff) * 4096 + std::min<int64_t>(sizes[d] / problem.dims[d].multipleOf, 0xffffffff);
    lengthKey[s * samples + i] = key;
  }
  firstStage[s] = static_cast<uint32_t>(stageParts.size());
  for (const Stage &stage : section.stages) {
    if (largestNs[s] == 0) { // No work at all.
      stageParts.push_back(1);
      continue;
    }
    const int64_t *sizes = aloneDims.data() + largest * dims;
    int64_t own = evaluate(stage.forward, sizes) + (section.trains ? evaluate(stage.backward, sizes) : 0) +
                  (section.splitsBackward ? evaluate(stage.weightGradient, sizes) : 0);
    stageParts.push_back(std::max<int64_t>(1, fraction(own, largestNs[s])));
  }
}

/// Of one of its stations, were all of them alike.
int64_t Regrouper::stationNs(const Problem &problem, uint32_t section) const {
  return sectionNs[section] /
         (replicas(problem, section) * static_cast<int64_t>(problem.sections[section].stages.size()));
}

void Regrouper::chooseTrunk(const Problem &problem, const ProblemIndex &index) {
  std::array<int64_t, 3> best = {-1, -1, -1};
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    int64_t neighbours = std::count_if(index.pairs.begin(), index.pairs.end(), [&](const ProblemIndex::Pair &pair) {
      return pair.producer == s || pair.consumer == s;
    });
    std::array<int64_t, 3> rank = {activeCount[s], neighbours, stationNs(problem, s)};
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
  firstStage.assign(sections, 0);
  stageParts.clear();
  for (uint32_t s = 0; s < sections; ++s)
    prepareSection(problem, s);
  mostPace = 1;
  trunk = 0;
  chooseTrunk(problem, index);
  belowTrunk = 0;
  for (const EdgeFacts &edge : index.edges)
    if (edge.producer == trunk && edge.pair != none && edge.gradient)
      belowTrunk |= sectionBit(edge.consumer);
  prepareLimits(problem, index);
  beforeNs.assign(samples, 0);
  aroundNs.assign(samples, 0);
  for (uint32_t s = 0; s < sections; ++s)
    for (size_t i = 0; s != trunk && i < samples; ++i)
      if (int64_t alone = aloneNs[s * samples + i]; alone > 0) {
        aroundNs[i] += alone;
        beforeNs[i] += s < trunk ? alone : 0;
      }
  sorted.clear();
  others.clear();
  for (uint32_t i = 0; i < samples; ++i)
    (aloneNs[trunk * samples + i] >= 0 ? sorted : others).push_back(i);
  telling = 0;
  classify(problem, 64);
  findShelves(problem);
}

/// Sorts the trunk's samples by class, and then by length.
void Regrouper::classify(const Problem &problem, int64_t apart) {
  size_t samples = problem.sampleCount(), sections = problem.sections.size();
  uint64_t needed = sectionBit(trunk);
  for (int64_t i = 0; i < std::min<int64_t>(apart, static_cast<int64_t>(sections) - 1); ++i) {
    uint32_t fullest = none;
    for (uint32_t s = 0; s < sections; ++s)
      if (!(needed & sectionBit(s)) && (fullest == none || stationNs(problem, s) > stationNs(problem, fullest)))
        fullest = s;
    needed |= sectionBit(fullest);
  }
  resorted = 0;
  if (needed == telling)
    return;
  telling = needed;
  resorted = sorted.size();
  const int64_t *key = lengthKey.data() + trunk * samples;
  std::sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
    if (classOf(a) != classOf(b))
      return classOf(a) < classOf(b);
    return key[a] != key[b] ? key[a] > key[b] : a < b;
  });
}

void Regrouper::cutTrunk(const Problem &problem) {
  size_t samples = problem.sampleCount(), dims = problem.dims.size();
  trunkGroups.clear();
  held.resize(2 * dims);
  int64_t *now = held.data(), *with = held.data() + dims;
  for (uint32_t i = 0; i < order.size(); ++i) {
    uint32_t sample = order[i];
    const int64_t *sizes = aloneDims.data() + sample * dims;
    uint64_t own = classOf(sample);
    bool together = !trunkGroups.empty() && trunkGroups.back().signature == own;
    if (together) {
      joinAlone(problem, now, sizes, with);
      together = fits(trunkMost, int64_t{trunkGroups.back().count} + 1, with);
    }
    int64_t work = together ? evaluate(total[trunk], with) : 0;
    if (!together || work > groupNs[trunk]) {
      trunkGroups.push_back({i, 0, 0, 0, own, 0, 0, 0, 0, 0});
      std::copy_n(sizes, dims, with);
      work = aloneNs[trunk * samples + sample];
    }
    std::swap(now, with);
    TrunkGroup &group = trunkGroups.back();
    ++group.count;
    group.workNs = work;
    group.needed |= signature[sample];
    group.beforeNs = std::max(group.beforeNs, beforeNs[sample]);
    group.aroundNs = std::max(group.aroundNs, aroundNs[sample]);
  }
}

/// A section's work on its devices, in the `shares` of its replicas where it has any, else evenly.
void Regrouper::addLoad(const Problem &problem, uint32_t s, int64_t sign) {
  const Section &section = problem.sections[s];
  int64_t even = sectionNs[s] / replicas(problem, s);
  for (size_t r = 0; r < section.devices.size(); ++r)
    for (size_t i = 0; i < section.stages.size(); ++i)
      deviceNs[section.devices[r][i]] += sign * share(shares.empty() ? even : shares[r], stageParts[firstStage[s] + i]);
}

/// Before a section is dealt out: where some of its devices have more to do for others than others have, its replicas
/// take what evens that out, each as much as the fullest of its devices has time for, as water finds its level.
void Regrouper::shareOut(const Problem &problem, uint32_t s) {
  const Section &section = problem.sections[s];
  shares.clear();
  loads.assign(section.devices.size(), 0);
  addLoad(problem, s, -1);
  int64_t low = INT64_MAX, high = 0;
  for (const std::vector<uint32_t> &replica : section.devices)
    for (uint32_t device : replica)
      low = std::min(low, deviceNs[device]), high = std::max(high, deviceNs[device]);
  if (high - low <= sectionNs[s] / 64 / replicas(problem, s))
    return;
  auto room = [&](size_t r, int64_t level) {
    int64_t least = INT64_MAX;
    for (size_t i = 0; i < section.stages.size(); ++i)
      least = std::min(least, fraction(std::max<int64_t>(0, level - deviceNs[section.devices[r][i]]),
                                       stageParts[firstStage[s] + i]));
    return std::max<int64_t>(1, least);
  };
  for (high += sectionNs[s]; high - low > 1 + high / 256;) {
    int64_t level = low + (high - low) / 2, all = 0;
    for (size_t r = 0; r < section.devices.size() && all < sectionNs[s]; ++r)
      all += std::min(room(r, level), sectionNs[s]);
    (all < sectionNs[s] ? low : high) = level;
  }
  for (size_t r = 0; r < section.devices.size(); ++r)
    shares.push_back(std::min(room(r, high), sectionNs[s]));
}

/// How far through the step a replica is after so much work: of 2^32; where all are alike, the work.
int64_t Regrouper::timeOf(uint32_t replica, int64_t work) const {
  return shares.empty() ? work : fraction(work, shares[replica]);
}

/// The one that is least far through after `work` more.
uint32_t Regrouper::leastLoaded(int64_t work) const {
  if (shares.empty())
    return static_cast<uint32_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
  uint32_t best = 0;
  int64_t least = timeOf(0, loads[0] + work);
  for (uint32_t r = 1; r < loads.size(); ++r)
    if (isFractionBelow(loads[r] + work, shares[r], least)) {
      best = r;
      least = timeOf(r, loads[r] + work);
    }
  return best;
}

/// How long micro-batches of these sections take where the trunk waits for their gradients.
int64_t Regrouper::belowNs(uint64_t needed) const {
  int64_t longest = 0;
  for (uint32_t s = 0; s < groupNs.size(); ++s)
    if (needed & belowTrunk & sectionBit(s))
      longest = std::max(longest, groupNs[s]);
  return longest;
}

/// In the flow's order to whichever replica is least loaded; that load is the micro-batch's time, which so never falls.
void Regrouper::dealTrunk(const Problem &problem, int64_t lag) {
  size_t count = problem.sections[trunk].devices.size();
  shareOut(problem, trunk);
  reach.assign(count, 0);
  int64_t work = 1;
  for (const TrunkGroup &group : trunkGroups)
    work += group.workNs;
  int64_t stages = static_cast<int64_t>(problem.sections[trunk].stages.size());
  even = work / static_cast<int64_t>(count) + 1;
  for (uint32_t g : flow) {
    TrunkGroup &group = trunkGroups[g];
    int64_t own = std::max<int64_t>(1, group.workNs);
    group.replica = leastLoaded(own);
    int64_t load = loads[group.replica];
    group.place = shares.empty() ? fraction(load, even) : timeOf(group.replica, load);
    group.back = group.place + fraction(belowNs(group.needed) * stages / 2 * lag, even);
    loads[group.replica] += own;
    group.position = static_cast<uint32_t>(reach[group.replica]++);
  }
  addLoad(problem, trunk, 1);
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
    backwardKey.push_back(group.back);
  }
}

/// How long a micro-batch of the section may take here; below a few constants' worth it would only cost.
int64_t Regrouper::timeLimit(uint32_t s) const {
  return std::max(groupNs[s] * unitPart / wholePart, constantNs[s] * 4);
}

/// Whether all of `more` can join the section's last micro-batch.
bool Regrouper::joins(const Problem &problem, uint32_t s, std::span<const uint32_t> more, int64_t limit,
                      const Groups &groups) {
  size_t dims = problem.dims.size();
  const MicroBatch &last = groups.list.back();
  held.assign(groups.dims.begin() + last.firstDim, groups.dims.begin() + static_cast<int64_t>(last.firstDim + dims));
  for (uint32_t sample : more)
    joinAlone(problem, held.data(), aloneDims.data() + sample * dims, held.data());
  if (!fits(problem.sections[s], static_cast<int64_t>(last.samples + more.size()), held.data()))
    return false;
  int64_t work = evaluate(total[s], held.data());
  if (work > limit)
    return false;
  if (!pads[s] || limit != timeLimit(s) || counts[s] < freeCounts[s])
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
    return timeLimit(s);
  if (pieces[s] * replicas(problem, s) == 1)
    return INT64_MAX;
  for (uint32_t sample : unit)
    work += aloneNs[s * problem.sampleCount() + sample];
  return std::max(timeLimit(s), 2 * work / (pieces[s] * replicas(problem, s)));
}

/// Into how many equal pieces `unit` must fall: by the time that each may take, and by samples.
int64_t Regrouper::pieceCount(const Problem &problem, uint32_t s, int64_t limit) const {
  if (limit == INT64_MAX)
    return 1;
  int64_t work = 0, samples = static_cast<int64_t>(unit.size()), most = problem.sections[s].maxSamples;
  for (uint32_t sample : unit)
    work += aloneNs[s * problem.sampleCount() + sample];
  return std::max(
      {int64_t{1}, work / std::max<int64_t>(1, limit) + (limit > 0 && work % limit != 0), (samples + most - 1) / most});
}

/// `unit` as new micro-batches of about the same time: where its work and its number of samples, on average, have
/// passed the next piece's share, or nothing more fits.
void Regrouper::cutUnit(const Problem &problem, uint32_t s, int64_t limit, Groups &groups) {
  constexpr int64_t unitPart = 1 << 20;
  const int64_t *alone = aloneNs.data() + s * problem.sampleCount();
  int64_t work = 1, done = 0, samples = static_cast<int64_t>(unit.size()), piece = -1,
          pieces = pieceCount(problem, s, limit);
  for (uint32_t sample : unit)
    work += alone[sample];
  for (int64_t i = 0; i < samples; ++i) {
    const uint32_t &sample = unit[static_cast<size_t>(i)];
    int64_t part = (fraction(done + alone[sample] / 2, work) >> 13) + (2 * i + 1) * unitPart / (4 * samples);
    int64_t now = part * pieces / unitPart;
    if ((fills ? i == 0 : now > piece) || !joins(problem, s, {&sample, 1}, limit, groups)) {
      groups.open(problem);
      forwardKey.push_back(unitTime);
      backwardKey.push_back(unitBack);
    }
    piece = std::max(piece, now);
    groups.add(problem, sample);
    done += alone[sample];
  }
}

/// `unit` as a whole into the last micro-batch, or into new ones of its own; where they are filled, as much of it as
/// fits.
void Regrouper::addUnit(const Problem &problem, uint32_t s, const TrunkGroup *trunkGroup, Groups &groups) {
  uint32_t replica = trunkGroup ? trunkGroup->replica : 0;
  int64_t position = trunkGroup ? trunkGroup->position : 0;
  bool isNear = !closed && (reach[replica] < 0 || position - reach[replica] < spread[s]);
  size_t before = groups.list.size();
  if (isNear && joins(problem, s, unit, timeLimit(s), groups)) {
    for (uint32_t sample : unit)
      groups.add(problem, sample);
    unit.clear();
  } else if (isNear && fills) {
    fillLast(problem, s, groups);
  }
  if (!unit.empty())
    reach.assign(reach.size(), -1);
  if (reach[replica] < 0)
    reach[replica] = position;
  if (!unit.empty())
    cutUnit(problem, s, trunkGroup ? pieceLimit(problem, s) : timeLimit(s), groups);
  if (s > trunk) // Its inputs come last from the last.
    forwardKey.back() = unitTime;
  backwardKey.back() = unitBack;
  closed = !fills && groups.list.size() > before + 1; // It fell into several.
}

/// What fits of `unit`'s first samples into the last micro-batch.
void Regrouper::fillLast(const Problem &problem, uint32_t s, Groups &groups) {
  auto next = unit.begin();
  for (; next != unit.end() && joins(problem, s, {&*next, 1}, timeLimit(s), groups); ++next)
    groups.add(problem, *next);
  if (next == unit.begin())
    return;
  unit.erase(unit.begin(), next);
  if (s > trunk)
    forwardKey.back() = unitTime;
  backwardKey.back() = unitBack;
}

/// Whether a section that pads may take what another trunk micro-batch has for it into `unit`, to cut it by length
/// together: while a quarter of what may be on the way at a time is not exceeded.
bool Regrouper::pools(const Problem &problem, uint32_t s, const TrunkGroup &group, int64_t work) const {
  int64_t most = timeLimit(s) * std::min<int64_t>(pieces[s], 64) * replicas(problem, s) / 4;
  return work <= most &&
         (starts[group.replica] < 0 || int64_t{group.position} - starts[group.replica] <
                                           std::max<int64_t>(1, std::min<int64_t>(spread[s], 1000) / 4));
}

/// Into the open micro-batch that it fills most, or a new one.
void Regrouper::fillOne(const Problem &problem, uint32_t s, uint32_t sample, const TrunkGroup &at) {
  constexpr size_t mostOpen = 6;
  size_t dims = problem.dims.size(), best = open.size();
  const int64_t *alone = aloneDims.data() + sample * dims;
  int64_t bestNs = -1, ownNs = aloneNs[s * problem.sampleCount() + sample], position = at.position;
  std::erase_if(open, [&](uint32_t b) { return position - bins[b].position >= spread[s]; });
  for (size_t i = 0; i < open.size(); ++i) {
    const Bin &bin = bins[open[i]];
    held.resize(dims);
    joinAlone(problem, binDims.data() + open[i] * dims, alone, held.data());
    if (!fits(problem.sections[s], int64_t{bin.samples} + 1, held.data()))
      continue;
    int64_t work = evaluate(total[s], held.data());
    unitPart = std::min(wholePart, std::min(bin.part, at.part) * blunt);
    if (work <= bestNs || (unitPart < wholePart && work > timeLimit(s)))
      continue;
    if (int64_t apart = evaluate(total[s], binDims.data() + open[i] * dims) + ownNs;
        pads[s] && work > apart + apart / 16)
      continue;
    bestNs = work;
    best = i;
  }
  compared += open.size();
  if (bestNs < 0) {
    if (open.size() == mostOpen)
      open.erase(open.begin());
    open.push_back(static_cast<uint32_t>(bins.size()));
    best = open.size() - 1;
    bins.push_back({at.place, s > trunk ? at.place : at.back, at.part, position, 0, 0});
    binDims.insert(binDims.end(), alone, alone + dims);
  } else {
    int64_t *own = binDims.data() + open[best] * dims;
    joinAlone(problem, own, alone, own);
  }
  Bin &bin = bins[open[best]];
  ++bin.samples;
  bin.part = std::min(bin.part, at.part);
  bin.back = std::max(bin.back, s > trunk ? at.place : at.back);
  if (s > trunk) // Its inputs come last from the last.
    bin.time = std::max(bin.time, at.place);
  binOf[sample] = open[best];
}

/// As full as may be: the samples as they flow, of each trunk micro-batch those that need most first.
void Regrouper::formFilled(const Problem &problem, uint32_t s, Groups &groups) {
  const int64_t *work = aloneNs.data() + s * problem.sampleCount();
  groups.beginSection(problem);
  bins.clear();
  binDims.clear();
  open.clear();
  binOf.assign(problem.sampleCount(), none);
  size_t beside = 0;  // Samples that the trunk does not see flow evenly beside it.
  TrunkGroup other{}; // Where they are.
  auto addOthers = [&](int64_t until) {
    for (; beside < others.size(); ++beside) {
      int64_t time = fraction(2 * static_cast<int64_t>(beside) + 1, 2 * static_cast<int64_t>(others.size()));
      if (time > until)
        return;
      other.place = other.back = time;
      if (work[others[beside]] >= 0)
        fillOne(problem, s, others[beside], other);
    }
  };
  for (uint32_t g : flow) {
    const TrunkGroup &group = trunkGroups[g];
    addOthers(group.place);
    other.position = group.position;
    unit.clear();
    for (uint32_t i = group.first; i < group.first + group.count; ++i)
      if (work[order[i]] >= 0)
        unit.push_back(order[i]);
    std::sort(unit.begin(), unit.end(),
              [&](uint32_t a, uint32_t b) { return work[a] != work[b] ? work[a] > work[b] : a < b; });
    for (uint32_t sample : unit)
      fillOne(problem, s, sample, group);
  }
  addOthers(whole);
  uint32_t first = 0;
  for (Bin &bin : bins)
    bin.first = std::exchange(first, first + bin.samples);
  binned.resize(first);
  for (uint32_t sample = 0; sample < binOf.size(); ++sample)
    if (binOf[sample] != none)
      binned[bins[binOf[sample]].first++] = sample;
  for (const Bin &bin : bins) {
    groups.open(problem);
    for (uint32_t i = bin.first - bin.samples; i < bin.first; ++i)
      groups.add(problem, binned[i]);
    forwardKey.push_back(bin.time);
    backwardKey.push_back(bin.back);
  }
  deal(problem, s, groups);
}

void Regrouper::formAlong(const Problem &problem, uint32_t s, Recipe recipe, Groups &groups) {
  if (recipe.full == 2) {
    formFilled(problem, s, groups);
    return;
  }
  const int64_t *work = aloneNs.data() + s * problem.sampleCount(), *key = lengthKey.data() + s * problem.sampleCount();
  groups.beginSection(problem);
  closed = true;
  fills = recipe.full == 1;
  reach.assign(problem.sections[trunk].devices.size(), -1);
  starts.assign(reach.size(), -1);
  unit.clear();
  int64_t held = 0;                  // The unit's work,
  const TrunkGroup *first = nullptr; // and where it starts.
  auto flush = [&] {
    if (pads[s])
      std::sort(unit.begin(), unit.end(),
                [&](uint32_t a, uint32_t b) { return key[a] != key[b] ? key[a] > key[b] : a < b; });
    if (!unit.empty())
      addUnit(problem, s, first, groups);
    unit.clear();
    held = 0;
    first = nullptr;
    starts.assign(starts.size(), -1);
  };
  size_t beside = 0; // Samples that the trunk does not see flow evenly beside it.
  auto addOthers = [&](int64_t until) {
    for (; beside < others.size(); ++beside) {
      int64_t time = fraction(2 * static_cast<int64_t>(beside) + 1, 2 * static_cast<int64_t>(others.size()));
      if (time > until)
        return;
      if (work[others[beside]] < 0)
        continue;
      flush();
      unit.assign(1, others[beside]);
      unitTime = unitBack = time;
      flush();
    }
  };
  for (uint32_t g : flow) {
    const TrunkGroup &group = trunkGroups[g];
    int64_t more = 0;
    for (uint32_t i = group.first; i < group.first + group.count; ++i)
      more += std::max<int64_t>(0, work[order[i]]);
    if (!recipe.pools || !pads[s] || !pools(problem, s, group, held + more))
      flush();
    addOthers(group.place);
    unitBack = s > trunk ? group.place : unit.empty() ? group.back : std::max(unitBack, group.back);
    unitTime = group.place;
    unitPart = std::min(wholePart, group.part * blunt);
    held += more;
    if (starts[group.replica] < 0)
      starts[group.replica] = group.position;
    for (uint32_t i = group.first; i < group.first + group.count; ++i)
      if (work[order[i]] >= 0)
        unit.push_back(order[i]);
    if (!first && !unit.empty())
      first = &group;
  }
  flush();
  addOthers(whole);
  deal(problem, s, groups);
}

void Regrouper::deal(const Problem &problem, uint32_t s, Groups &groups) {
  shareOut(problem, s);
  for (size_t g = groups.firstOfSection.back(); g < groups.list.size(); ++g) {
    int64_t own = std::max<int64_t>(1, evaluate(total[s], groups.dims.data() + groups.list[g].firstDim));
    uint32_t replica = leastLoaded(own);
    groups.list[g].replica = replica;
    loads[replica] += own;
  }
  if (levels && shares.empty() && loads.size() > 1)
    level(problem, s, groups);
  addLoad(problem, s, 1);
}

/// Where micro-batches are few, those dealt out last cannot even out what came before.
void Regrouper::level(const Problem &problem, uint32_t s, Groups &groups) {
  size_t first = groups.firstOfSection.back();
  dealt.clear();
  int64_t all = 0;
  for (size_t g = first; g < groups.list.size(); ++g)
    all += dealt.emplace_back(std::max<int64_t>(1, evaluate(total[s], groups.dims.data() + groups.list[g].firstDim)));
  for (size_t round = 0; round < 2 * loads.size() && exchange(first, groups, all / static_cast<int64_t>(loads.size()));
       ++round)
    ;
}

/// The fullest replica gives one of its micro-batches for a shorter one that flows nearby, or for none: those that even
/// out most. False where nothing helps, or little is left to even out.
bool Regrouper::exchange(size_t first, Groups &groups, int64_t even) {
  constexpr size_t kNear = 2; // So many times as far apart as there are replicas.
  auto fullest = static_cast<uint32_t>(std::max_element(loads.begin(), loads.end()) - loads.begin());
  size_t near = kNear * loads.size(), end = groups.list.size(), given = end, taken = end;
  uint32_t target = 0;
  int64_t best = loads[fullest] - even / 1024;
  if (loads[fullest] - even <= even / 512)
    return false;
  for (size_t g = first; g < end; ++g) {
    if (groups.list[g].replica != fullest)
      continue;
    size_t low = std::max(first, g - std::min(g, near)), high = std::min(end, g + near + 1);
    compared += high - low;
    for (size_t h = low; h < high; ++h) {
      uint32_t other = groups.list[h].replica;
      for (bool swaps : {true, false}) {
        int64_t moved = dealt[g - first] - (swaps ? dealt[h - first] : 0);
        int64_t most = std::max(loads[fullest] - moved, loads[other] + moved);
        if (other != fullest && moved > 0 && most < best)
          best = most, given = g, taken = swaps ? h : end, target = other;
      }
    }
  }
  if (given == end)
    return false;
  int64_t moved = dealt[given - first] - (taken == end ? 0 : dealt[taken - first]);
  groups.list[given].replica = target;
  if (taken != end)
    groups.list[taken].replica = fullest;
  loads[fullest] -= moved;
  loads[target] += moved;
  return true;
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
  classify(problem, recipe.apart);
  sortTrunk(problem, recipe.shelves);
  cutTrunk(problem);
  flowTrunk(problem, recipe);
  taperTrunk(problem, index, recipe);
  deviceNs.assign(problem.devices, 0);
  shares.clear();
  for (uint32_t s = 0; s < problem.sections.size(); ++s)
    addLoad(problem, s, 1);
  dealTrunk(problem, recipe.lag);
  groups.begin(problem);
  for (uint32_t s = 0; s < problem.sections.size(); ++s)
    s == trunk ? formTrunk(problem, groups) : formAlong(problem, s, recipe, groups);
  groups.finish(problem, index);
  if (recipe.wait > 0)
    delay(problem, index, recipe.wait, groups);
}

/// What takes long on its way to a section comes later there, so that nothing else waits behind it.
void Regrouper::delay(const Problem &problem, const ProblemIndex &index, int64_t halves, const Groups &groups) {
  int64_t stages = static_cast<int64_t>(problem.sections[trunk].stages.size());
  onWay.assign(groups.list.size(), 0);
  for (uint32_t g = 0; g < groups.list.size(); ++g) {
    uint32_t s = groups.list[g].section, i = g - groups.firstOfSection[s];
    for (size_t p = 0; p < index.pairs.size(); ++p)
      if (index.pairs[p].consumer == s)
        for (uint32_t producer : groups.producers[p][i])
          onWay[g] = std::max(onWay[g], onWay[producer]);
    int64_t later = fraction(onWay[g] * stages / 2 * halves, even);
    forwardKey[g] += later;
    backwardKey[g] += later;
    for (uint32_t stage = 0; stage < problem.sections[s].stages.size(); ++stage)
      onWay[g] += groups.taskNs[groups.task(g, stage, TaskKind::Forward)];
  }
}

} // namespace maestro::wavefront
