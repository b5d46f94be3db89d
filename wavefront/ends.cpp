// What is done to the trunk's micro-batches before and after they are sequenced: samples on shelves, and small ones at
// the ends.
#include "wavefront/regroup_units.h"

#include <algorithm>

namespace maestro::wavefront {

void Regrouper::findShelves(const Problem &problem) {
  size_t samples = problem.sampleCount();
  const int64_t *key = lengthKey.data() + trunk * samples;
  shelved.assign(problem.sections.size(), 0);
  for (size_t s = 0; s < problem.sections.size(); ++s)
    for (uint32_t i : sorted)
      shelved[s] |= pads[s] && aloneNs[s * samples + i] >= 0 && lengthKey[s * samples + i] != key[i];
  hasShelves = std::count(shelved.begin(), shelved.end(), 1) > 0;
}

/// Two lengths that do not go together, as of a text and of a recording in it: each class is cut in shelves by the one
/// that pads most, and sorted by the trunk's on each shelf, up and down in turn, so that neighbours are alike in both.
void Regrouper::sortTrunk(const Problem &problem, int64_t shelves) {
  order = sorted;
  size_t samples = problem.sampleCount();
  const int64_t *key = lengthKey.data() + trunk * samples;
  for (auto first = order.begin(), last = first; shelves > 0 && hasShelves && first != order.end(); first = last) {
    while (last != order.end() && classOf(*last) == classOf(*first))
      ++last;
    uint32_t by = none;
    for (uint32_t s = 0; s < problem.sections.size(); ++s)
      if (shelved[s] && aloneNs[s * samples + *first] >= 0 &&
          (by == none || stationNs(problem, s) > stationNs(problem, by)))
        by = s;
    if (by == none)
      continue;
    const int64_t *other = lengthKey.data() + by * samples;
    std::sort(first, last, [&](uint32_t a, uint32_t b) { return other[a] != other[b] ? other[a] > other[b] : a < b; });
    int64_t count = last - first;
    for (int64_t shelf = 0; shelf < shelves; ++shelf)
      std::sort(first + count * shelf / shelves, first + count * (shelf + 1) / shelves, [&](uint32_t a, uint32_t b) {
        return key[a] != key[b] ? (key[a] > key[b]) == (shelf % 2 == 0) : a < b;
      });
  }
}

/// One of the trunk's micro-batches in pieces, from its first sample on, or from its last. partAt(work) is the part of
/// the usual time that a piece may take after so much of the micro-batch, beside what would only cost constants.
template <typename PartAt>
void Regrouper::cutTapered(const Problem &problem, const TrunkGroup &group, bool backwards, PartAt partAt) {
  size_t dims = problem.dims.size();
  held.resize(2 * dims);
  int64_t *now = held.data(), *with = held.data() + dims, part = partAt(0), done = 0;
  auto from = tapered.size();
  for (uint32_t i = 0; i < group.count; ++i) {
    uint32_t at = backwards ? group.first + group.count - 1 - i : group.first + i, sample = order[at];
    const int64_t *sizes = aloneDims.data() + sample * dims;
    int64_t work = 0;
    if (i > 0) {
      joinAlone(problem, now, sizes, with);
      work = evaluate(total[trunk], with);
    }
    if (i == 0 || work > groupNs[trunk] * part / wholePart + constantNs[trunk] * 4) {
      if (i > 0)
        part = partAt(done += tapered.back().workNs);
      TrunkGroup &made = tapered.emplace_back(group);
      made.first = at, made.count = 0, made.part = part;
      std::copy_n(sizes, dims, with);
      work = aloneNs[trunk * problem.sampleCount() + sample];
    }
    std::swap(now, with);
    TrunkGroup &made = tapered.back();
    made.first = std::min(made.first, at);
    ++made.count;
    made.workNs = work;
  }
  if (backwards)
    std::reverse(tapered.begin() + static_cast<int64_t>(from), tapered.end());
}

/// While the first micro-batches travel to the last stage, and the last ones back, whoever is at the other end waits: a
/// micro-batch's way must not take longer than what is before it, or after it, at a station; or `taper` / 4 times that,
/// as small ones cost constants; at the step's end `fall` / 4 times as long again.
void Regrouper::taperTrunk(const Problem &problem, const ProblemIndex &index, Recipe recipe) {
  unitPart = wholePart;
  if (recipe.taper == 0)
    return;
  chain = groupNs;
  int64_t stages = static_cast<int64_t>(problem.sections[trunk].stages.size()), work = 0, before = 0;
  int64_t way = std::max<int64_t>(1, longestChain(index) / 4 * recipe.taper * replicas(problem, trunk) * stages);
  for (const TrunkGroup &group : trunkGroups)
    work += group.workNs;
  auto partAt = [&](int64_t distance) { return std::clamp<int64_t>(fraction(distance, way) >> 24, 1, wholePart); };
  auto fallAt = [&](int64_t distance) { return recipe.fall == 0 ? wholePart : partAt(distance / recipe.fall * 4); };
  tapered.clear();
  for (uint32_t g : flow) {
    const TrunkGroup &group = trunkGroups[g];
    int64_t after = work - before - group.workNs;
    if (std::min(partAt(before), fallAt(after)) == wholePart)
      tapered.push_back(group);
    else if (partAt(before) < fallAt(after))
      cutTapered(problem, group, false, [&](int64_t done) { return partAt(before + done); });
    else
      cutTapered(problem, group, true, [&](int64_t done) { return fallAt(after + done); });
    before += group.workNs;
  }
  trunkGroups.swap(tapered);
  flow.resize(trunkGroups.size());
  for (uint32_t g = 0; g < flow.size(); ++g)
    flow[g] = g;
}

} // namespace maestro::wavefront
