#include "wavefront/regroup.h"

#include <numeric>

namespace maestro::wavefront {
namespace {

/// Padding together may cost a 16th more than apart: constants are saved for it.
constexpr int64_t kMaxPadding = 16;
/// Pieces take their constants so many times, however short they should be.
constexpr int64_t kMinConstantsOfPiece = 4;

} // namespace

void Regrouper::prepare(const Problem &problem, const ProblemIndex &index) {
  work.measure(problem, index);
  sizes.prepare(problem, index, work.trunk);
  flow.prepare(problem, work);
}

void Regrouper::form(const Problem &problem, const ProblemIndex &index, const Choice &choice, Groups &groups) {
  forwardKey.clear();
  backwardKey.clear();
  sizes.choose(problem, index, work, choice);
  flow.form(problem, index, work, sizes, choice);
  compared = flow.compared;
  sorted = flow.sorted;
  loads.begin(problem, work);
  dealTrunk(problem);
  groups.begin(problem);
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    groups.beginSection(problem);
    s == work.trunk ? formTrunk(problem, groups) : formAlong(problem, s, groups);
  }
  groups.finish(problem, index);
}

/// In the flow's order to whichever replica is least loaded; that load is the micro-batch's place, which so never
/// falls.
void Regrouper::dealTrunk(const Problem &problem) {
  int64_t allNs = 0;
  for (const TrunkGroup &group : flow.groups)
    allNs += std::max<int64_t>(1, group.workNs);
  loads.beginSection(problem, work.trunk, allNs);
  positions.assign(problem.sections[work.trunk].devices.size(), 0);
  for (TrunkGroup &group : flow.groups) {
    int64_t ns = std::max<int64_t>(1, group.workNs);
    group.replica = loads.take(ns);
    group.place = loads.progress(group.replica, ns);
    group.position = static_cast<uint32_t>(positions[group.replica]++);
  }
}

void Regrouper::formTrunk(const Problem &problem, Groups &groups) {
  for (const TrunkGroup &group : flow.groups) {
    groups.open(problem);
    groups.list.back().replica = group.replica;
    for (uint32_t i = group.first; i < group.first + group.count; ++i)
      groups.add(problem, flow.order[i]);
    forwardKey.push_back(group.place);
    backwardKey.push_back(group.place);
  }
}

/// Calls visit() with `unit` filled: the section's samples of each trunk micro-batch as they flow, and the samples that
/// the trunk does not see, evenly beside it.
template <typename Visit> void Regrouper::forEachUnit(uint32_t s, Visit visit) {
  const int64_t *ns = work.aloneNs.data() + s * work.samples;
  auto count = static_cast<int64_t>(work.beside.size());
  int64_t beside = 0;
  auto visitBeside = [&](int64_t until) {
    for (int64_t time; beside < count && (time = fraction(2 * beside + 1, 2 * count)) <= until; ++beside) {
      uint32_t sample = work.beside[static_cast<size_t>(beside)];
      if (ns[sample] < 0)
        continue;
      unit.samples.assign(1, sample);
      unit.group = nullptr, unit.time = time, unit.timePart = TrunkGroup::kFullTime;
      visit();
    }
  };
  for (const TrunkGroup &group : flow.groups) {
    visitBeside(group.place);
    unit.samples.clear();
    for (uint32_t i = group.first; i < group.first + group.count; ++i)
      if (ns[flow.order[i]] >= 0)
        unit.samples.push_back(flow.order[i]);
    unit.group = &group, unit.time = group.place, unit.timePart = group.timePart;
    if (!unit.samples.empty())
      visit();
  }
  visitBeside(kWhole);
}

void Regrouper::formAlong(const Problem &problem, uint32_t s, Groups &groups) {
  const int64_t *length = work.lengthKey.data() + s * work.samples;
  closed = true;
  reach.assign(problem.sections[work.trunk].devices.size(), -1);
  forEachUnit(s, [&] {
    if (work.pads[s])
      std::sort(unit.samples.begin(), unit.samples.end(),
                [&](uint32_t a, uint32_t b) { return length[a] != length[b] ? length[a] > length[b] : a < b; });
    addUnit(problem, s, groups);
  });
  deal(problem, s, groups);
}

/// The unit as a whole into the last micro-batch, or into new ones of its own.
void Regrouper::addUnit(const Problem &problem, uint32_t s, Groups &groups) {
  uint32_t replica = unit.group ? unit.group->replica : 0;
  int64_t position = unit.group ? unit.group->position : 0;
  bool isNear = !closed && (reach[replica] < 0 || position - reach[replica] < sizes.maxApart[s]);
  if (isNear && joins(problem, s, unit.samples, groups)) {
    for (uint32_t sample : unit.samples)
      groups.add(problem, sample);
    closed = false;
  } else {
    size_t before = groups.list.size();
    reach.assign(reach.size(), -1);
    cutUnit(problem, s, groups);
    closed = groups.list.size() > before + 1; // It fell into several.
  }
  if (reach[replica] < 0)
    reach[replica] = position;
  if (s > work.trunk) // Its inputs come last from the last.
    forwardKey.back() = unit.time;
  backwardKey.back() = unit.time;
}

int64_t Regrouper::unitNs(uint32_t s) const {
  int64_t ns = 0;
  for (uint32_t sample : unit.samples)
    ns += work.aloneNs[s * work.samples + sample];
  return ns;
}

/// How long a micro-batch of the section may take here; below a few constants' worth it would only cost.
int64_t Regrouper::timeLimit(uint32_t s) const {
  return std::max(sizes.groupNs[s] * unit.timePart / TrunkGroup::kFullTime, work.constantNs[s] * kMinConstantsOfPiece);
}

/// Into how many equal pieces the unit must fall: by the time that each may take, and by samples.
int64_t Regrouper::pieceCount(const Problem &problem, uint32_t s) const {
  auto over = [](int64_t a, int64_t b) { return a == 0 ? 0 : (a - 1) / std::max<int64_t>(1, b) + 1; };
  return std::max({int64_t{1}, over(unitNs(s), timeLimit(s)),
                   over(static_cast<int64_t>(unit.samples.size()), problem.sections[s].maxSamples)});
}

/// The unit as new micro-batches of about the same time: where its work and its number of samples, on average, have
/// passed the next piece's share, or nothing more fits.
void Regrouper::cutUnit(const Problem &problem, uint32_t s, Groups &groups) {
  constexpr int64_t kAll = 1 << 20;
  int64_t all = 1 + unitNs(s), done = 0, samples = static_cast<int64_t>(unit.samples.size()), piece = -1,
          pieces = pieceCount(problem, s);
  for (int64_t i = 0; i < samples; ++i) {
    const uint32_t &sample = unit.samples[static_cast<size_t>(i)];
    int64_t own = work.aloneNs[s * work.samples + sample];
    int64_t passed = (fraction(done + own / 2, all) >> 13) + (2 * i + 1) * kAll / (4 * samples);
    int64_t now = passed * pieces / kAll;
    if (now > piece || !joins(problem, s, {&sample, 1}, groups)) {
      groups.open(problem);
      forwardKey.push_back(unit.time);
      backwardKey.push_back(unit.time);
    }
    piece = std::max(piece, now);
    groups.add(problem, sample);
    done += own;
  }
}

/// Whether all of these samples can join the section's last micro-batch.
bool Regrouper::joins(const Problem &problem, uint32_t s, std::span<const uint32_t> samples, const Groups &groups) {
  const MicroBatch &last = groups.list.back();
  const int64_t *dims = groups.dims.data() + last.firstDim;
  held.assign(dims, dims + problem.dims.size());
  for (uint32_t sample : samples)
    work.joinAlone(problem, held.data(), sample, held.data());
  if (!fits(problem.sections[s], static_cast<int64_t>(last.samples + samples.size()), held.data()))
    return false;
  int64_t together = evaluate(work.cost[s], held.data());
  if (together > timeLimit(s))
    return false;
  if (!work.pads[s])
    return true;
  int64_t apart = evaluate(work.cost[s], dims);
  for (uint32_t sample : samples)
    apart += work.aloneNs[s * work.samples + sample];
  return together <= apart + apart / kMaxPadding;
}

void Regrouper::deal(const Problem &problem, uint32_t s, Groups &groups) {
  groupNs.clear();
  for (size_t g = groups.firstOfSection.back(); g < groups.list.size(); ++g)
    groupNs.push_back(std::max<int64_t>(1, evaluate(work.cost[s], groups.dims.data() + groups.list[g].firstDim)));
  loads.beginSection(problem, s, std::accumulate(groupNs.begin(), groupNs.end(), int64_t{0}));
  for (size_t i = 0; i < groupNs.size(); ++i)
    groups.list[groups.firstOfSection.back() + i].replica = loads.take(groupNs[i]);
}

void Regrouper::listSamples(bool flowing, std::vector<uint32_t> &samples) const {
  samples.clear();
  if (!flowing)
    samples.assign(flow.order.begin(), flow.order.end());
  for (size_t i = 0; flowing && i < flow.groups.size(); ++i) {
    auto first = flow.order.begin() + flow.groups[i].first;
    samples.insert(samples.end(), first, first + flow.groups[i].count);
  }
  samples.insert(samples.end(), work.beside.begin(), work.beside.end());
}

} // namespace maestro::wavefront
