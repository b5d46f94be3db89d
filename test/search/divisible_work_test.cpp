#include "planner/search/divisible_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace maestro::planner {
namespace {

/// Some devices have nothing but what is theirs alone; no less than the most of it a device (max-flow, min-cut).
double leastSeconds(const std::vector<DivisibleWork> &work, uint32_t devices) {
  double most = 0;
  for (uint32_t set = 1; set < 1u << devices; ++set) {
    double own = 0;
    for (const DivisibleWork &piece : work)
      if (std::all_of(piece.devices.begin(), piece.devices.end(), [&](uint32_t device) { return set >> device & 1; }))
        own += piece.seconds;
    most = std::max(most, own / __builtin_popcount(set));
  }
  return most;
}

TEST(DivisibleWork, IsDividedAsEvenlyAsItCanBe) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    uint32_t devices = 1 + random() % 6;
    std::vector<DivisibleWork> work(1 + random() % 8);
    for (DivisibleWork &piece : work) {
      piece.seconds = static_cast<double>(random() % 1000) * 1e-3;
      for (uint32_t device = 0; device < devices; ++device)
        if (random() % 2)
          piece.devices.push_back(device);
      if (piece.devices.empty())
        piece.devices.push_back(random() % devices);
    }
    double least = leastSeconds(work, devices);
    EXPECT_TRUE(canBeDivided(work, devices, least * (1 + 1e-6) + 1e-12));
    EXPECT_TRUE(least == 0 || !canBeDivided(work, devices, least * (1 - 1e-4)));
  }
}

} // namespace
} // namespace maestro::planner
