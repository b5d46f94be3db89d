#include "wavefront/trunk_flow.h"

namespace maestro::wavefront {
namespace {

/// All of a section's work, when progress is compared.
constexpr int64_t kAll = 1 << 20;
/// Pieces at the step's ends take their constants so many times, however short they should be.
constexpr int64_t kMinConstantsAtEnds = 4;

/// Sixteen times the binary logarithm, rounded down.
int64_t logarithm(int64_t value) {
  int octave = 63 - __builtin_clzll(static_cast<uint64_t>(std::max<int64_t>(value, 1)));
  return octave * 16 + ((octave >= 4 ? value >> (octave - 4) : value << (4 - octave)) & 15);
}

/// The i-th of `count` things that are sorted largest first, as they stand on a mountain: up to the largest, and down
/// again with those in between.
uint32_t onMountain(uint32_t i, uint32_t count) {
  uint32_t top = count / 2;
  return i < top ? 2 * (top - i) - 1 : 2 * (i - top);
}

} // namespace

void TrunkFlow::form(const Problem &problem, const ProblemIndex &index, const SampleWork &work, MicroBatchSizes &sizes,
                     const Choice &choice) {
  compared = sorted = 0;
  sort(problem, work, choice.sampleClasses);
  cut(problem, work, sizes);
  measureNeeds(problem, work);
  fillBuckets(choice.lengthBands);
  sequence(work.trunk);
  if (choice.lightEnds > 0)
    pullEnds(problem, work, sizes, choice.lightEnds);
  sortByPlace();
  taper(problem, index, work, sizes);
}

void TrunkFlow::prepare(const Problem &problem, const SampleWork &work) {
  order = work.inTrunk;
  told = 0;
}

/// The trunk, and the fullest of the other sections.
uint64_t TrunkFlow::toldApart(const Problem &problem, const SampleWork &work, int64_t classes) const {
  uint64_t sections = SampleWork::bit(work.trunk);
  for (int64_t i = 0; i < classes; ++i) {
    uint32_t fullest = kNone;
    for (uint32_t s = 0; s < problem.sections.size(); ++s)
      if (!(sections & SampleWork::bit(s)) &&
          (fullest == kNone || work.stationNs(problem, s) > work.stationNs(problem, fullest)))
        fullest = s;
    if (fullest == kNone)
      break;
    sections |= SampleWork::bit(fullest);
  }
  return sections;
}

/// By which of these sections a sample needs, then by length.
void TrunkFlow::sort(const Problem &problem, const SampleWork &work, int64_t classes) {
  uint64_t sections = toldApart(problem, work, classes);
  if (sections == told)
    return;
  told = sections;
  sorted = order.size();
  const int64_t *length = work.lengthKey.data() + work.trunk * work.samples;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    uint64_t classOfA = work.needed[a] & told, classOfB = work.needed[b] & told;
    if (classOfA != classOfB)
      return classOfA < classOfB;
    return length[a] != length[b] ? length[a] > length[b] : a < b;
  });
}

void TrunkFlow::cut(const Problem &problem, const SampleWork &work, const MicroBatchSizes &sizes) {
  size_t dims = problem.dims.size();
  groups.clear();
  held.resize(2 * dims);
  int64_t *now = held.data(), *with = held.data() + dims;
  for (uint32_t i = 0; i < order.size(); ++i) {
    uint32_t sample = order[i];
    uint64_t own = work.needed[sample] & told;
    bool together = !groups.empty() && groups.back().sampleClass == own;
    int64_t ns = 0;
    if (together) {
      work.joinAlone(problem, now, sample, with);
      together = fits(problem.sections[work.trunk], int64_t{groups.back().count} + 1, with);
      ns = together ? evaluate(work.cost[work.trunk], with) : 0;
    }
    if (!together || ns > sizes.groupNs[work.trunk]) {
      TrunkGroup made;
      made.first = i, made.sampleClass = own;
      groups.push_back(made);
      std::copy_n(work.dimsOf(problem, sample), dims, with);
      ns = work.aloneNs[work.trunk * work.samples + sample];
    }
    std::swap(now, with);
    TrunkGroup &group = groups.back();
    ++group.count;
    group.workNs = ns;
    group.beforeNs = std::max(group.beforeNs, work.beforeNs[sample]);
    group.aroundNs = std::max(group.aroundNs, work.aroundNs[sample]);
  }
}

/// What each micro-batch makes each section work, and how much it matters that a section is ahead or behind.
void TrunkFlow::measureNeeds(const Problem &problem, const SampleWork &work) {
  size_t sections = problem.sections.size();
  needs.assign(groups.size() * sections, 0);
  for (size_t g = 0; g < groups.size(); ++g)
    for (size_t s = 0; s < sections; ++s) {
      int64_t &need = needs[g * sections + s];
      for (uint32_t i = groups[g].first; i < groups[g].first + groups[g].count; ++i)
        need += std::max<int64_t>(0, work.aloneNs[s * work.samples + order[i]]);
      need /= std::max<int64_t>(1, work.sectionNs[s] / kAll);
    }
  int64_t fullest = 1;
  weights.clear();
  for (uint32_t s = 0; s < sections; ++s)
    fullest = std::max(fullest, weights.emplace_back(work.stationNs(problem, s)));
  for (int64_t &weight : weights)
    weight = std::max<int64_t>(1, fraction(weight, fullest) >> 24);
  progress.assign(sections, 0);
}

void TrunkFlow::fillBuckets(int64_t bands) {
  buckets.clear();
  for (uint32_t first = 0, last; first < groups.size(); first = last) {
    for (last = first; last < groups.size() && groups[last].sampleClass == groups[first].sampleClass;)
      ++last;
    uint32_t count = last - first, parts = std::min(count, static_cast<uint32_t>(bands));
    for (uint32_t part = 0; part < parts; ++part) {
      uint32_t from = first + count * part / parts;
      buckets.push_back({from, from, first + count * (part + 1) / parts});
    }
  }
}

/// Goal chasing, as assembly lines are sequenced (Monden, Toyota Production System): of the bands of each
/// class, in which lengths rise and fall, always the one whose next micro-batch leaves the sections' shares of work
/// done least apart.
void TrunkFlow::sequence(uint32_t trunk) {
  size_t sections = progress.size();
  auto nextOf = [](const Bucket &bucket) {
    return bucket.first + onMountain(bucket.next - bucket.first, bucket.end - bucket.first);
  };
  uint32_t last = kNone;
  for (size_t i = 0; i < groups.size(); ++i) {
    Bucket *best = nullptr;
    int64_t least = INT64_MAX;
    for (Bucket &bucket : buckets) {
      if (bucket.next == bucket.end)
        continue;
      ++compared;
      int64_t cost = unevenness(nextOf(bucket), trunk) + (last == kNone ? 0 : stall(last, nextOf(bucket)));
      if (cost < least)
        least = cost, best = &bucket;
    }
    last = nextOf(*best);
    ++best->next;
    for (size_t s = 0; s < sections; ++s)
      progress[s] += needs[last * sections + s];
    groups[last].place = static_cast<int64_t>(i) * (kWhole / static_cast<int64_t>(groups.size() + 1));
  }
}

/// How far apart the sections' shares of work done would be after one more micro-batch; fuller sections count more.
int64_t TrunkFlow::unevenness(uint32_t group, uint32_t trunk) const {
  const int64_t *need = needs.data() + group * progress.size();
  int64_t done = progress[trunk] + need[trunk], differ = 0;
  for (size_t s = 0; s < progress.size(); ++s) {
    int64_t ahead = (progress[s] + need[s] - done) * weights[s] / 256;
    differ += ahead * ahead / 16;
  }
  return differ;
}

/// The price of a micro-batch after another that takes more or less time: pipelines stall. In unevenness()'s units, an
/// octave is worth being ahead by two micro-batches.
int64_t TrunkFlow::stall(uint32_t from, uint32_t to) const {
  int64_t octaves = logarithm(groups[to].workNs) - logarithm(groups[from].workNs);
  int64_t step = kAll / static_cast<int64_t>(groups.size() + 1);
  return octaves * octaves * (step * step / 16) / 64;
}

/// The first micro-batches keep the trunk busy while the others' inputs are made, the last while the others' gradients
/// are used up: at each end as many `quarters` as there are of the work that one micro-batch has around the trunk, and
/// never more than a quarter of the trunk's.
void TrunkFlow::pullEnds(const Problem &problem, const SampleWork &work, const MicroBatchSizes &sizes,
                         int64_t quarters) {
  int64_t trunkNs = 0, aroundNs = 0;
  for (const TrunkGroup &group : groups)
    trunkNs += group.workNs;
  for (uint32_t s = 0; s < problem.sections.size(); ++s)
    aroundNs += s == work.trunk ? 0 : sizes.groupNs[s];
  int64_t coverNs = std::min(aroundNs / 4 * quarters * replicaCount(problem, work.trunk), trunkNs / 4);
  pullEnd([](const TrunkGroup &group) { return group.aroundNs; }, 2 * kWhole, -1, coverNs);
  pullEnd([](const TrunkGroup &group) { return group.beforeNs; }, -kWhole, 1, coverNs);
}

template <typename Score> void TrunkFlow::pullEnd(Score score, int64_t place, int64_t step, int64_t coverNs) {
  size_t most = groups.size() / 4 + (groups.size() > 2);
  ranked.clear();
  for (uint32_t g = 0; g < groups.size(); ++g)
    if (groups[g].place >= 0 && groups[g].place <= kWhole)
      ranked.push_back({-score(groups[g]), -groups[g].workNs, g});
  std::make_heap(ranked.begin(), ranked.end()); // The least needy, then the shortest, on top.
  for (size_t pulled = 0; coverNs > 0 && pulled < most && !ranked.empty(); ++pulled) {
    std::pop_heap(ranked.begin(), ranked.end());
    TrunkGroup &group = groups[ranked.back().group];
    ranked.pop_back();
    group.place = place;
    place += step;
    coverNs -= group.workNs;
  }
}

void TrunkFlow::sortByPlace() {
  ranked.clear();
  for (uint32_t g = 0; g < groups.size(); ++g)
    ranked.push_back({groups[g].place, 0, g});
  std::sort(ranked.begin(), ranked.end());
  next.clear();
  for (const Ranked &entry : ranked)
    next.push_back(groups[entry.group]);
  groups.swap(next);
}

/// While the first micro-batches travel to the last stage, and the last ones back, whoever is at the other end waits: a
/// micro-batch's way must not take longer than twice what is before it, or after it, at a station.
void TrunkFlow::taper(const Problem &problem, const ProblemIndex &index, const SampleWork &work,
                      MicroBatchSizes &sizes) {
  int64_t stages = static_cast<int64_t>(problem.sections[work.trunk].stages.size()), trunkNs = 0, before = 0;
  int64_t way = std::max<int64_t>(1, sizes.longestChainNs(index) / 2 * replicaCount(problem, work.trunk) * stages);
  for (const TrunkGroup &group : groups)
    trunkNs += group.workNs;
  auto partAt = [&](int64_t distance) {
    return std::clamp<int64_t>(fraction(distance, way) >> 24, 1, TrunkGroup::kFullTime);
  };
  next.clear();
  int64_t fullNs = sizes.groupNs[work.trunk];
  for (const TrunkGroup &group : groups) {
    int64_t after = trunkNs - before - group.workNs;
    if (partAt(std::min(before, after)) == TrunkGroup::kFullTime)
      next.push_back(group);
    else
      cutTapered(problem, work, fullNs, group, after <= before,
                 [&](int64_t done) { return partAt(std::min(before, after) + done); });
    before += group.workNs;
  }
  groups.swap(next);
}

/// One micro-batch in pieces, from its first sample on, or from its last. partAt(ns) is the part of the usual time that
/// a piece may take after so much of the micro-batch.
template <typename PartAt>
void TrunkFlow::cutTapered(const Problem &problem, const SampleWork &work, int64_t fullNs, const TrunkGroup &group,
                           bool backwards, PartAt partAt) {
  size_t dims = problem.dims.size(), from = next.size();
  held.resize(2 * dims);
  int64_t *now = held.data(), *with = held.data() + dims, part = partAt(0), done = 0;
  for (uint32_t i = 0; i < group.count; ++i) {
    uint32_t at = backwards ? group.first + group.count - 1 - i : group.first + i, sample = order[at];
    int64_t ns = 0;
    if (i > 0) {
      work.joinAlone(problem, now, sample, with);
      ns = evaluate(work.cost[work.trunk], with);
    }
    if (i == 0 || ns > fullNs * part / TrunkGroup::kFullTime + work.constantNs[work.trunk] * kMinConstantsAtEnds) {
      if (i > 0)
        part = partAt(done += next.back().workNs);
      TrunkGroup &made = next.emplace_back(group);
      made.first = at, made.count = 0, made.timePart = part;
      std::copy_n(work.dimsOf(problem, sample), dims, with);
      ns = work.aloneNs[work.trunk * work.samples + sample];
    }
    std::swap(now, with);
    TrunkGroup &made = next.back();
    made.first = std::min(made.first, at);
    ++made.count;
    made.workNs = ns;
  }
  if (backwards)
    std::reverse(next.begin() + static_cast<int64_t>(from), next.end());
}

} // namespace maestro::wavefront
