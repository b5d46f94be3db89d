// Work of sections that is divided among replicas, on devices that they may share.
#pragma once

#include <cstdint>
#include <vector>

namespace maestro::planner {

/// Of one section.
struct ReplicatedWork {
  /// By stage, for all samples: seconds of what stages have in common, of which a replica has the same part in each of its stages, as it
  /// sees the same samples there; and of the rest, which is divided among the replicas in whatever way.
  std::vector<double> alike, rest;
  std::vector<std::vector<uint32_t>> devices; ///< replica × stage
};

/// Whether all of it can be done where each device has so many seconds; true where it nearly can (a millionth), and where that is not
/// found out soon. A linear program, solved by Dantzig's simplex method (Chvátal, Linear Programming, chapters 2 and 3).
bool canBeDivided(const std::vector<ReplicatedWork> &work, uint32_t devices, double seconds);

} // namespace maestro::planner
