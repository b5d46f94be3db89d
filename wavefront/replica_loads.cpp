#include "wavefront/replica_loads.h"

#include <functional>
#include <numeric>

namespace maestro::wavefront {

void ReplicaLoads::begin(const Problem &problem, const SampleWork &work) {
  deviceNs.assign(problem.devices, 0);
  if (sharesOf.size() < problem.sections.size())
    sharesOf.resize(problem.sections.size());
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    sharesOf[s].assign(problem.sections[s].devices.size(), work.sectionNs[s] / replicaCount(problem, s));
    addToDevices(problem, s, 1);
  }
}

/// A replica's share, evenly over its stages; taken away again where `sign` is -1.
void ReplicaLoads::addToDevices(const Problem &problem, uint32_t s, int64_t sign) {
  const Section &section = problem.sections[s];
  for (size_t r = 0; r < section.devices.size(); ++r)
    for (uint32_t device : section.devices[r])
      deviceNs[device] += sign * sharesOf[s][r] / static_cast<int64_t>(section.stages.size());
}

/// As water finds its level, on top of what the fullest device of each replica does for other sections.
void ReplicaLoads::beginSection(const Problem &problem, uint32_t s, int64_t workNs) {
  const Section &section = problem.sections[s];
  addToDevices(problem, s, -1);
  shares = &sharesOf[s];
  for (size_t r = 0; r < section.devices.size(); ++r) {
    (*shares)[r] = 0;
    for (uint32_t device : section.devices[r])
      (*shares)[r] = std::max((*shares)[r], deviceNs[device] * static_cast<int64_t>(section.stages.size()));
  }
  int64_t level = std::accumulate(shares->begin(), shares->end(), workNs) / replicaCount(problem, s);
  for (int64_t &share : *shares)
    share = std::clamp<int64_t>(level - share, 1, std::max<int64_t>(1, workNs));
  isEven = std::ranges::adjacent_find(*shares, std::not_equal_to<>()) == shares->end();
  addToDevices(problem, s, 1);
  loads.assign(section.devices.size(), 0);
}

uint32_t ReplicaLoads::take(int64_t workNs) {
  uint32_t best = 0;
  auto isLess = [&](uint32_t a, uint32_t b) { // (load + work) / share, without a division.
    return static_cast<__int128>(loads[a] + workNs) * (*shares)[b] <
           static_cast<__int128>(loads[b] + workNs) * (*shares)[a];
  };
  if (isEven)
    best = static_cast<uint32_t>(std::ranges::min_element(loads) - loads.begin());
  for (uint32_t r = 1; r < loads.size() && !isEven; ++r)
    best = isLess(r, best) ? r : best;
  loads[best] += workNs;
  return best;
}

} // namespace maestro::wavefront
