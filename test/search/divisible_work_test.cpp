#include "planner/search/divisible_work.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace maestro::planner {
namespace {

/// What is said not to be possible is proven by its prices.
bool canBeDivided(const std::vector<ReplicatedWork> &sections, uint32_t devices, double seconds) {
  std::vector<const ReplicatedWork *> work;
  for (const ReplicatedWork &own : sections)
    work.push_back(&own);
  Division division = divide(work, devices, seconds);
  EXPECT_EQ(division.isPossible, !isTooDear(work, devices, seconds, division.prices));
  return division.isPossible;
}

/// What some devices can do, and how long it takes.
struct Piece {
  double seconds = 0;
  std::vector<uint32_t> devices;
};

/// Some devices have nothing but what is theirs alone; no less than the most of it a device (max-flow, min-cut).
double leastSeconds(const std::vector<Piece> &pieces, uint32_t devices) {
  double most = 0;
  for (uint32_t set = 1; set < 1u << devices; ++set) {
    double own = 0;
    for (const Piece &piece : pieces)
      if (std::all_of(piece.devices.begin(), piece.devices.end(), [&](uint32_t device) { return set >> device & 1; }))
        own += piece.seconds;
    most = std::max(most, own / __builtin_popcount(set));
  }
  return most;
}

TEST(DivisibleWork, SectionsOfOneStageAreDividedAsEvenlyAsTheyCanBe) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    uint32_t devices = 1 + random() % 6;
    std::vector<Piece> pieces(1 + random() % 8);
    std::vector<ReplicatedWork> work;
    for (Piece &piece : pieces) {
      piece.seconds = static_cast<double>(random() % 1000) * 1e-3;
      for (uint32_t device = 0; device < devices; ++device)
        if (random() % 2)
          piece.devices.push_back(device);
      if (piece.devices.empty())
        piece.devices.push_back(random() % devices);
      ReplicatedWork &own = work.emplace_back();
      (random() % 2 ? own.alike : own.rest).assign(1, piece.seconds); // With one stage it is the same.
      own.alike.resize(1);
      own.rest.resize(1);
      for (uint32_t device : piece.devices)
        own.devices.push_back({device});
    }
    double least = leastSeconds(pieces, devices);
    EXPECT_TRUE(canBeDivided(work, devices, least * (1 + 1e-5) + 1e-12));
    EXPECT_TRUE(least == 0 || !canBeDivided(work, devices, least * (1 - 1e-4)));
  }
}

/// Two sections of two replicas each: every part of each that is a multiple of a 256th.
double leastOfAllParts(const std::vector<ReplicatedWork> &work, uint32_t devices) {
  constexpr int kParts = 256;
  double least = INFINITY;
  for (int first = 0; first <= kParts; ++first)
    for (int second = 0; second <= kParts; ++second) {
      std::vector<double> load(devices, 0.0);
      for (size_t section : {0, 1})
        for (size_t replica : {0, 1})
          for (size_t stage = 0; stage < work[section].alike.size(); ++stage) {
            if (!work[section].fixed.empty())
              load[work[section].devices[replica][stage]] += work[section].fixed[stage];
            double part = static_cast<double>(section == 0 ? first : second) / kParts;
            load[work[section].devices[replica][stage]] +=
                (replica == 0 ? part : 1 - part) * work[section].alike[stage];
          }
      least = std::min(least, *std::max_element(load.begin(), load.end()));
    }
  return least;
}

/// A replica's stages see the same samples: what its fullest device has no time for, the others cannot have either.
TEST(DivisibleWork, StagesOfAReplicaHaveTheSamePart) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    uint32_t devices = 4 + random() % 5;
    std::vector<ReplicatedWork> work(2);
    for (ReplicatedWork &own : work) {
      size_t stages = 1 + random() % (devices / 2);
      for (size_t stage = 0; stage < stages; ++stage)
        own.alike.push_back(static_cast<double>(1 + random() % 1000) * 1e-3);
      own.rest.assign(stages, 0.0);
      for (size_t stage = 0; seed % 2 == 1 && stage < stages; ++stage)
        own.fixed.push_back(static_cast<double>(random() % 300) * 1e-3); // Whatever its part.
      std::vector<uint32_t> order(devices);
      for (uint32_t device = 0; device < devices; ++device)
        order[device] = device;
      std::shuffle(order.begin(), order.end(), random);
      for (size_t replica : {0, 1})
        own.devices.emplace_back(order.begin() + static_cast<int64_t>(replica * stages),
                                 order.begin() + static_cast<int64_t>((replica + 1) * stages));
    }
    double least = leastOfAllParts(work, devices);
    EXPECT_TRUE(canBeDivided(work, devices, least * (1 + 1e-5)));
    EXPECT_FALSE(canBeDivided(work, devices, least * 0.98)); // Between 256ths it is little less.
    std::vector<const ReplicatedWork *> all{&work[0], &work[1]};
    Division division = divide(all, devices, least * 0.98);
    EXPECT_FALSE(isTooDear(all, devices, least * (1 + 1e-5), division.prices)); // Prices prove no more than is true.
  }
}

TEST(DivisibleWork, ADeviceMayHaveNoTimeForWhatIsFixed) {
  ReplicatedWork own{{0.1}, {0.1}, {1.5}, {{0}, {1}}};
  EXPECT_FALSE(canBeDivided({own}, 2, 1));
  EXPECT_TRUE(canBeDivided({own}, 2, 1.7));
  std::vector<const ReplicatedWork *> work{&own};
  EXPECT_TRUE(divide(work, 2, 1, false).isPossible);
}

} // namespace
} // namespace maestro::planner
