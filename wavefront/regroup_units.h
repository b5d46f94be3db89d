// What the parts of the regrouper share: where something lies in the flow, and parts of it.
#pragma once

#include "wavefront/regroup.h"

#include <algorithm>

namespace maestro::wavefront {

constexpr int64_t whole = int64_t{1} << 32; ///< The flow's end.

/// part / total of the flow, without overflow.
inline int64_t fraction(int64_t part, int64_t total) {
  return static_cast<int64_t>(static_cast<unsigned __int128>(part) * whole /
                              static_cast<unsigned __int128>(std::max<int64_t>(1, total)));
}

/// fraction(part, total) < limit, without a division.
inline bool isFractionBelow(int64_t part, int64_t total, int64_t limit) {
  return static_cast<__int128>(part) * whole < static_cast<__int128>(limit) * std::max<int64_t>(1, total);
}

/// A part of 2^32 of `value`.
inline int64_t share(int64_t value, int64_t part) {
  return static_cast<int64_t>(static_cast<__int128>(value) * part / whole);
}

/// Of a set of sections; those beyond 64 share bits.
inline uint64_t sectionBit(uint32_t section) { return uint64_t{1} << (section & 63); }

/// join() where the sample's sizes are those that it has alone, so rounded up already.
inline void joinAlone(const Problem &problem, const int64_t *combined, const int64_t *alone, int64_t *joined) {
  for (size_t d = 0; d < problem.dims.size(); ++d)
    joined[d] = problem.dims[d].sum        ? combined[d] + alone[d]
                : problem.dims[d].unpadded ? combine(problem.dims[d], combined[d], alone[d])
                                           : std::max(combined[d], alone[d]);
}

inline int64_t replicas(const Problem &problem, uint32_t section) {
  return static_cast<int64_t>(problem.sections[section].devices.size());
}

} // namespace maestro::wavefront
