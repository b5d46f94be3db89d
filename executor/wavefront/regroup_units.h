// What the parts of the regrouper share: where something lies in the flow, and parts of it.
#pragma once

#include "executor/wavefront/regroup.h"

namespace maestro::wavefront {

constexpr int64_t whole = int64_t{1} << 32; ///< The flow's end.

/// part / total of the flow, without overflow.
inline int64_t fraction(int64_t part, int64_t total) {
  return static_cast<int64_t>(static_cast<unsigned __int128>(part) * whole /
                              static_cast<unsigned __int128>(std::max<int64_t>(1, total)));
}

inline int64_t replicas(const Problem &problem, uint32_t section) {
  return static_cast<int64_t>(problem.sections[section].devices.size());
}

} // namespace maestro::wavefront
