// What each sample makes each section work, and which section leads: all that forming micro-batches needs of a problem
// before any choice.
#pragma once

#include "wavefront/problem_index.h"

#include <algorithm>

namespace maestro::wavefront {

constexpr int64_t kWhole =
    int64_t{1} << 32; ///< All of something, when parts of it are compared; a step's end in the flow.

/// part / total of kWhole, without overflow.
inline int64_t fraction(int64_t part, int64_t total) {
  return static_cast<int64_t>(static_cast<unsigned __int128>(part) * kWhole /
                              static_cast<unsigned __int128>(std::max<int64_t>(1, total)));
}

inline int64_t replicaCount(const Problem &problem, uint32_t section) {
  return static_cast<int64_t>(problem.sections[section].devices.size());
}

/// Times are of all stages and kinds of a section's tasks together. Keeps its memory.
struct SampleWork {
  void measure(const Problem &problem, const ProblemIndex &index);

  /// Of one of the section's stations, were all of them alike.
  int64_t stationNs(const Problem &problem, uint32_t section) const {
    return sectionNs[section] /
           (replicaCount(problem, section) * static_cast<int64_t>(problem.sections[section].stages.size()));
  }
  /// join() of problem.h with a sample as it is alone, so rounded up already.
  void joinAlone(const Problem &problem, const int64_t *combined, uint32_t sample, int64_t *joined) const {
    const int64_t *own = dimsOf(problem, sample);
    for (size_t d = 0; d < problem.dims.size(); ++d)
      joined[d] = problem.dims[d].sum        ? combined[d] + own[d]
                  : problem.dims[d].unpadded ? combine(problem.dims[d], combined[d], own[d])
                                             : std::max(combined[d], own[d]);
  }
  const int64_t *dimsOf(const Problem &problem, uint32_t sample) const {
    return aloneDims.data() + sample * problem.dims.size();
  }
  /// A set of sections; those beyond 64 share bits.
  static uint64_t bit(uint32_t section) { return uint64_t{1} << (section & 63); }

  size_t samples = 0;
  std::vector<Cost> cost;                                 ///< By section.
  std::vector<int64_t> constantNs;                        ///< By section: what a micro-batch costs whatever it holds.
  std::vector<int64_t> aloneDims;                         ///< sample × dims
  std::vector<int64_t> aloneNs;                           ///< section × sample; -1 where it takes no part.
  std::vector<int64_t> sectionNs, longestNs, activeCount; ///< By section: the sum, the largest, the number of these.
  std::vector<uint8_t> pads;                              ///< By section: its cost depends on a maximum.
  std::vector<int64_t> lengthKey;                         ///< section × sample: what padding depends on.
  std::vector<uint64_t> needed;                           ///< By sample: the sections in which it takes part.
  std::vector<int64_t> beforeNs, aroundNs; ///< By sample: in sections before the trunk, and but the trunk.
  std::vector<uint32_t> longestSample;     ///< By section.

  uint32_t trunk = 0;                    ///< The section that sees most samples.
  std::vector<uint32_t> inTrunk, beside; ///< Samples that the trunk sees, and the others.
  int64_t maxPerReplica = 1;             ///< More micro-batches than samples are not possible.

private:
  void measureSection(const Problem &problem, uint32_t section);
  void sumCosts(const Problem &problem, uint32_t section);
  void chooseTrunk(const Problem &problem, const ProblemIndex &index);
  std::vector<int64_t> padded; ///< By dim: whether the section pads by it.
};

} // namespace maestro::wavefront
