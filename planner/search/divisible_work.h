// Work that may be divided among devices, each piece of it among some.
#pragma once

#include <cstdint>
#include <vector>

namespace maestro::planner {

struct DivisibleWork {
  double seconds = 0;
  std::vector<uint32_t> devices;
};

/// Whether all of it can be done where each device has so many seconds: a maximum flow from work to devices, by shortest augmenting
/// paths (Edmonds and Karp 1972), from an even division on. True within a billionth.
bool canBeDivided(const std::vector<DivisibleWork> &work, uint32_t devices, double seconds);

} // namespace maestro::planner
