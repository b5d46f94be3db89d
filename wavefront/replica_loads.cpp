#include "wavefront/replica_loads.h"

namespace maestro::wavefront {

void ReplicaLoads::begin(const Problem &problem, const SampleWork &work) {
  firstStage.clear();
  stageParts.clear();
  shares.clear();
  deviceNs.assign(problem.devices, 0);
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    const Section &section = problem.sections[s];
    const int64_t *sizes = work.dimsOf(problem, work.longestSample[s]);
    firstStage.push_back(static_cast<uint32_t>(stageParts.size()));
    for (const Stage &stage : section.stages) {
      int64_t own = work.longestNs[s] == 0
                        ? 0
                        : evaluate(stage.forward, sizes) + (section.trains ? evaluate(stage.backward, sizes) : 0) +
                              (section.splitsBackward ? evaluate(stage.weightGradient, sizes) : 0);
      stageParts.push_back(std::max<int64_t>(1, fraction(own, work.longestNs[s])));
    }
    spread(problem, work, s, 1);
  }
}

/// Adds, or takes away, the section's work on its devices.
void ReplicaLoads::spread(const Problem &problem, const SampleWork &work, uint32_t s, int64_t sign) {
  const Section &section = problem.sections[s];
  int64_t even = work.sectionNs[s] / replicaCount(problem, s);
  for (size_t r = 0; r < section.devices.size(); ++r)
    for (size_t i = 0; i < section.stages.size(); ++i) {
      __int128 ns = shares.empty() ? even : shares[r];
      deviceNs[section.devices[r][i]] += sign * static_cast<int64_t>(ns * stageParts[firstStage[s] + i] / kWhole);
    }
}

/// Each replica takes as much as the fullest of its devices has time for, as water finds its level.
void ReplicaLoads::beginSection(const Problem &problem, const SampleWork &work, uint32_t s) {
  const Section &section = problem.sections[s];
  int64_t sectionNs = work.sectionNs[s];
  shares.clear();
  loads.assign(section.devices.size(), 0);
  spread(problem, work, s, -1);
  int64_t low = INT64_MAX, high = 0;
  for (const std::vector<uint32_t> &replica : section.devices)
    for (uint32_t device : replica)
      low = std::min(low, deviceNs[device]), high = std::max(high, deviceNs[device]);
  if (high - low <= sectionNs / 64 / replicaCount(problem, s)) // Even enough.
    return;
  auto room = [&](size_t r, int64_t level) {
    int64_t least = sectionNs;
    for (size_t i = 0; i < section.stages.size(); ++i)
      least = std::min(least, fraction(std::max<int64_t>(0, level - deviceNs[section.devices[r][i]]),
                                       stageParts[firstStage[s] + i]));
    return std::max<int64_t>(1, least);
  };
  for (high += sectionNs; high - low > 1 + high / 256;) {
    int64_t level = low + (high - low) / 2, all = 0;
    for (size_t r = 0; r < section.devices.size() && all < sectionNs; ++r)
      all += room(r, level);
    (all < sectionNs ? low : high) = level;
  }
  for (size_t r = 0; r < section.devices.size(); ++r)
    shares.push_back(room(r, high));
}

uint32_t ReplicaLoads::take(int64_t workNs) {
  uint32_t best = 0;
  if (shares.empty()) {
    best = static_cast<uint32_t>(std::min_element(loads.begin(), loads.end()) - loads.begin());
  } else {
    auto isLess = [&](uint32_t a, uint32_t b) { // (load + work) / share, without a division.
      return static_cast<__int128>(loads[a] + workNs) * shares[b] <
             static_cast<__int128>(loads[b] + workNs) * shares[a];
    };
    for (uint32_t r = 1; r < loads.size(); ++r)
      best = isLess(r, best) ? r : best;
  }
  loads[best] += workNs;
  return best;
}

void ReplicaLoads::endSection(const Problem &problem, const SampleWork &work, uint32_t s) {
  spread(problem, work, s, 1);
  shares.clear();
}

} // namespace maestro::wavefront
