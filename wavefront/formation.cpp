#include "wavefront/formation.h"

#include <algorithm>

namespace maestro::wavefront {
namespace {

bool isActive(const Problem &problem, uint32_t section, uint32_t sample) {
  return takesPart(problem.sections[section], problem.sizes.data() + sample * problem.dims.size());
}

/// One section; `cut(i)` says that a micro-batch must not reach from before order[i] to it.
template <typename Cut>
void fillSection(const Problem &problem, uint32_t section, std::span<const uint32_t> order, int64_t maxSamples, Cut cut,
                 Groups &groups) {
  groups.beginSection(problem);
  bool isOpen = false;
  for (size_t i = 0; i < order.size(); ++i) {
    if (cut(i))
      isOpen = false;
    if (!isActive(problem, section, order[i]))
      continue;
    if (!isOpen || groups.list.back().samples >= maxSamples || !groups.fits(problem, order[i]))
      groups.open(problem);
    groups.add(problem, order[i]);
    isOpen = true;
  }
}

} // namespace

void groupInOrder(const Problem &problem, const ProblemIndex &index, std::span<const uint32_t> order,
                  int64_t maxSamples, Groups &groups) {
  groups.begin(problem);
  for (uint32_t s = 0; s < problem.sections.size(); ++s)
    fillSection(
        problem, s, order, maxSamples, [](size_t) { return false; }, groups);
  groups.finish(problem, index);
}

void groupInBlocks(const Problem &problem, const ProblemIndex &index, std::span<const uint32_t> order, Groups &groups) {
  size_t dims = problem.dims.size();
  std::vector<uint8_t> &cuts = groups.cuts;
  std::vector<int64_t> &held = groups.blockDims, &counts = groups.blockSamples;
  cuts.assign(order.size(), 0);
  held.assign((problem.sections.size() + 1) * dims, 0);
  int64_t *joined = held.data() + problem.sections.size() * dims;
  counts.assign(problem.sections.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t *sizes = problem.sizes.data() + order[i] * dims;
    for (uint32_t s = 0; s < problem.sections.size() && !cuts[i]; ++s) {
      const Section &section = problem.sections[s];
      if (!takesPart(section, sizes))
        continue;
      join(problem, held.data() + s * dims, sizes, joined);
      cuts[i] = !fits(section, counts[s] + 1, joined);
    }
    if (cuts[i]) {
      held.assign(held.size(), 0);
      counts.assign(counts.size(), 0);
    }
    for (uint32_t s = 0; s < problem.sections.size(); ++s) {
      if (!takesPart(problem.sections[s], sizes))
        continue;
      ++counts[s];
      join(problem, held.data() + s * dims, sizes, held.data() + s * dims);
    }
  }
  groups.begin(problem);
  for (uint32_t s = 0; s < problem.sections.size(); ++s)
    fillSection(
        problem, s, order, problem.sections[s].maxSamples, [&](size_t i) { return cuts[i] != 0; }, groups);
  groups.finish(problem, index);
}

void dealInTurn(const Problem &problem, Groups &groups) {
  for (uint32_t s = 0; s < problem.sections.size(); ++s)
    for (uint32_t i = 0; i < groups.count(s); ++i)
      groups.list[groups.firstOfSection[s] + i].replica = i % static_cast<uint32_t>(problem.sections[s].devices.size());
}

void dealByWork(const Problem &problem, Groups &groups) {
  std::vector<int64_t> &loads = groups.blockDims;
  for (uint32_t s = 0; s < problem.sections.size(); ++s) {
    loads.assign(problem.sections[s].devices.size(), 0);
    for (uint32_t g = groups.firstOfSection[s]; g < groups.firstOfSection[s + 1]; ++g) {
      auto least = std::min_element(loads.begin(), loads.end());
      groups.list[g].replica = static_cast<uint32_t>(least - loads.begin());
      *least += std::max<int64_t>(1, groups.workNs[g]);
    }
  }
}

} // namespace maestro::wavefront
