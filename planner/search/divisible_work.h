// Work of sections that is divided among replicas, on devices that they may share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace maestro::planner {

/// Of one section.
struct ReplicatedWork {
  /// By stage, for all samples: seconds of what stages have in common, of which a replica has the same part in each of
  /// its stages, as it sees the same samples there; and of the rest, which is divided among the replicas in whatever
  /// way.
  std::vector<double> alike, rest;
  std::vector<double> fixed =
      {}; ///< By stage: what each of its devices does besides, whatever its part; empty: nothing.
  std::vector<std::vector<uint32_t>> devices; ///< replica × stage
};

/// What some sections have to do together.
using SharedWork = std::span<const ReplicatedWork *const>;

struct Division {
  bool isPossible = true;
  /// Where it is not, what a second of each device costs, so that it is seen: all work costs more than all seconds that
  /// there are, wherever it is done (the program's dual). What proves it of one work often does of others.
  std::vector<double> prices;
};

/// Whether all of it can be done where each device has so many seconds, with what is fixed or without; true where it
/// nearly can (a millionth), and where that is not found out soon. A linear program, solved by Dantzig's simplex method
/// (Chvátal, Linear Programming, chapters 2, 3 and 5).
Division divide(SharedWork work, uint32_t devices, double seconds, bool withFixed = true);
/// Whether prices prove that it cannot be done; devices beyond them cost nothing.
bool isTooDear(SharedWork work, uint32_t devices, double seconds, const std::vector<double> &prices,
               bool withFixed = true);

} // namespace maestro::planner
