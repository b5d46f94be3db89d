// The order in which the trunk's micro-batches flow.
#include "wavefront/regroup_units.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

constexpr int64_t unitShare = 1 << 20; ///< All of a section's work, when progress is compared.

/// Sixteen times the binary logarithm, rounded down.
int64_t logarithm(int64_t value) {
  int octave = 63 - __builtin_clzll(static_cast<uint64_t>(std::max<int64_t>(value, 1)));
  return octave * 16 + ((octave >= 4 ? value >> (octave - 4) : value << (4 - octave)) & 15);
}

/// The i-th of `count` things that are sorted largest first: `waves` times up to a largest, with `peak` of sixteen, and
/// down again with the others.
uint32_t onMountain(uint32_t i, uint32_t count, const Recipe &recipe) {
  uint32_t waves = static_cast<uint32_t>(recipe.waves), up = static_cast<uint32_t>(recipe.peak), wave = 0;
  for (uint32_t own; i >= (own = (count - wave + waves - 1) / waves); ++wave)
    i -= own;
  uint32_t own = (count - wave + waves - 1) / waves, before = own * up / 16;
  return wave + waves * (i < before ? ((before - i) * 16 + up - 1) / up - 1 : (i - before) * 16 / (16 - up));
}

} // namespace

/// Goal chasing, as assembly lines are sequenced: of the classes of samples (in each of which lengths, or ways, rise
/// and fall like a mountain), always the one whose next micro-batch leaves the sections' shares of work done least
/// apart; fuller sections count more. Of the one chosen, the recipe's `run` in a row: what is formed along them then
/// has samples that are alike.
void Regrouper::evenOut(const Problem &problem, Recipe recipe) {
  if (recipe.ways) // Classes stay together, as cutTrunk() has them.
    std::sort(trunkGroups.begin(), trunkGroups.end(), [&](const TrunkGroup &a, const TrunkGroup &b) {
      if (a.signature != b.signature)
        return a.signature < b.signature;
      return a.wayNs(recipe.ways) != b.wayNs(recipe.ways) ? a.wayNs(recipe.ways) > b.wayNs(recipe.ways)
                                                          : a.first < b.first;
    });
  buckets.clear();
  for (uint32_t first = 0, last; first < trunkGroups.size(); first = last) {
    for (last = first; last < trunkGroups.size() && trunkGroups[last].signature == trunkGroups[first].signature;)
      ++last;
    uint32_t count = last - first, parts = std::min(count, static_cast<uint32_t>(recipe.bands));
    for (uint32_t part = 0; part < parts; ++part) {
      uint32_t from = first + count * part / parts, to = first + count * (part + 1) / parts;
      buckets.push_back({from, from, to});
    }
  }
  measureNeeds(problem);
  auto next = [&](const Bucket &bucket) {
    return bucket.first + onMountain(bucket.next - bucket.first, bucket.end - bucket.first, recipe);
  };
  uint32_t last = none;
  for (size_t i = 0; i < trunkGroups.size();) {
    Bucket *best = nullptr;
    int64_t least = INT64_MAX;
    for (Bucket &bucket : buckets) {
      if (bucket.next == bucket.end)
        continue;
      ++compared;
      int64_t differs = unevenness(next(bucket)) + (last == none ? 0 : jump(last, next(bucket)));
      if (differs < least)
        least = differs, best = &bucket;
    }
    for (int64_t taken = 0; taken < recipe.run && best->next < best->end; ++taken, ++best->next)
      put(last = next(*best), i++);
  }
}

/// All samples on one mountain of lengths, or of ways, so that pipelines see no micro-batch much longer than its
/// neighbours.
void Regrouper::alongSlope(const Problem &problem, Recipe recipe) {
  const int64_t *key = lengthKey.data() + trunk * problem.sampleCount();
  auto length = [&](const TrunkGroup &group) {
    if (recipe.ways)
      return group.wayNs(recipe.ways);
    return pads[trunk] ? key[order[group.first]] : group.workNs / group.count;
  };
  ranked.clear();
  for (uint32_t g = 0; g < trunkGroups.size(); ++g)
    ranked.push_back({-length(trunkGroups[g]), 0, g});
  std::sort(ranked.begin(), ranked.end());
  measureNeeds(problem);
  uint32_t count = static_cast<uint32_t>(ranked.size());
  if (count == 0)
    return;
  auto onSlope = [&](uint32_t i) { return ranked[onMountain(i, count, recipe)].group; };
  uint32_t held = onSlope(0); // Of two at a time, the one that is better now.
  for (uint32_t i = 0; i + 1 < count; ++i) {
    uint32_t next = onSlope(i + 1);
    if (unevenness(next) < unevenness(held))
      std::swap(held, next);
    put(held, i);
    held = next;
  }
  put(held, count - 1);
}

/// What each trunk micro-batch makes each section work, and how much a section's being ahead or behind matters.
void Regrouper::measureNeeds(const Problem &problem) {
  size_t sections = problem.sections.size(), samples = problem.sampleCount();
  needs.assign(trunkGroups.size() * sections, 0);
  for (size_t g = 0; g < trunkGroups.size(); ++g)
    for (uint32_t i = trunkGroups[g].first; i < trunkGroups[g].first + trunkGroups[g].count; ++i)
      for (size_t s = 0; s < sections; ++s)
        needs[g * sections + s] += std::max<int64_t>(0, aloneNs[s * samples + order[i]]);
  for (size_t g = 0; g < trunkGroups.size(); ++g)
    for (size_t s = 0; s < sections; ++s)
      needs[g * sections + s] /= std::max<int64_t>(1, sectionNs[s] / unitShare);
  int64_t fullest = 1;
  weights.assign(sections, 0);
  for (uint32_t s = 0; s < sections; ++s) {
    weights[s] = stationNs(problem, s);
    fullest = std::max(fullest, weights[s]);
  }
  for (int64_t &weight : weights)
    weight = std::max<int64_t>(1, fraction(weight, fullest) >> 24);
  progress.assign(sections, 0);
  leads.assign(sections, 0);
  for (uint32_t s = 0; s < trunk; ++s)
    leads[s] = problem.sections[s].trains;
}

/// How far apart the sections' shares of work done would be after one more trunk micro-batch. What trains before the
/// trunk works on a sample twice, and has the second half left when the trunk is done with it: with a lead its samples
/// come sooner than evenly.
int64_t Regrouper::unevenness(uint32_t group) const {
  size_t sections = progress.size();
  const int64_t *need = needs.data() + group * sections;
  int64_t done = progress[trunk] + need[trunk], differ = 0;
  for (size_t s = 0; s < sections; ++s) {
    int64_t aim = leads[s] ? std::min(unitShare, done + done / 16 * lead) : done;
    int64_t ahead = (progress[s] + need[s] - aim) * weights[s] / 256;
    differ += ahead * ahead / 16;
  }
  return differ;
}

/// The price of a micro-batch after another that takes more or less time: pipelines stall. In unevenness()'s units, an
/// octave is worth being ahead by two micro-batches.
int64_t Regrouper::jump(uint32_t from, uint32_t to) const {
  int64_t octaves = logarithm(trunkGroups[to].workNs) - logarithm(trunkGroups[from].workNs);
  int64_t step = unitShare / static_cast<int64_t>(trunkGroups.size() + 1);
  return octaves * octaves * (step * step / 16) / 256 * smooth;
}

void Regrouper::put(uint32_t group, size_t at) {
  size_t sections = progress.size();
  for (size_t s = 0; s < sections; ++s)
    progress[s] += needs[group * sections + s];
  trunkGroups[group].place = static_cast<int64_t>(at) * (whole / static_cast<int64_t>(trunkGroups.size() + 1));
}

/// The first micro-batches keep the trunk busy while the others' inputs are made, the last while the others' gradients
/// are used up: at each end as much work as one micro-batch has around the trunk, or quarters of it, and never more
/// than a quarter.
void Regrouper::pullEnds(const Problem &problem, int64_t quarters) {
  int64_t trunkWork = 0, around = 0;
  for (const TrunkGroup &group : trunkGroups)
    trunkWork += group.workNs;
  for (uint32_t s = 0; s < problem.sections.size(); ++s)
    around += s == trunk ? 0 : groupNs[s];
  size_t most = trunkGroups.size() / 4 + (trunkGroups.size() > 2);
  auto pull = [&](auto score, int64_t place, int64_t step) {
    int64_t cover = std::min(around / 4 * quarters * replicas(problem, trunk), trunkWork / 4);
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
  lead = recipe.lead;
  smooth = recipe.smooth;
  blunt = recipe.blunt;
  levels = recipe.level;
  compared = 0;
  recipe.slope ? alongSlope(problem, recipe) : evenOut(problem, recipe);
  if (recipe.ends > 0)
    pullEnds(problem, recipe.ends);
  ranked.clear();
  for (uint32_t g = 0; g < trunkGroups.size(); ++g)
    ranked.push_back({trunkGroups[g].place, 0, g});
  std::sort(ranked.begin(), ranked.end());
  flow.clear();
  for (const Ranked &entry : ranked)
    flow.push_back(entry.group);
}

} // namespace maestro::wavefront
