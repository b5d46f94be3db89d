// Packing: always valid, close to the bound on lifetimes shaped like a training step's.
#include "planner/emit/arena.h"

#include <gtest/gtest.h>

#include <random>

using namespace maestro::planner;

namespace {

/// Saved activations that live from forward to backward, with short-lived ones around them.
std::vector<Lifetime> trainingStep(uint32_t layers, std::mt19937 &random) {
  std::vector<Lifetime> lifetimes;
  uint32_t ops = layers * 10;
  for (uint32_t op = 0; op < ops; ++op) {
    uint64_t bytes = 64u << (random() % 12);
    bool isSaved = random() % 3 == 0;
    lifetimes.push_back({op, isSaved ? 2 * ops - op : op + 1 + static_cast<uint32_t>(random() % 3), bytes});
    lifetimes.push_back({ops + op, ops + op + 1 + static_cast<uint32_t>(random() % 3), bytes});
  }
  return lifetimes;
}

TEST(Arena, NothingNeedsNothing) { EXPECT_EQ(packArena({}).bytes, 0u); }

TEST(Arena, DisjointLifetimesShareMemory) {
  std::vector<Lifetime> lifetimes = {{0, 1, 100}, {2, 3, 128}, {4, 4, 64}};
  EXPECT_EQ(packArena(lifetimes).bytes, 128u);
}

TEST(Arena, BoundIsTheLargestLiveSum) {
  std::vector<Lifetime> lifetimes = {{0, 2, 64}, {1, 3, 128}, {3, 4, 64}};
  EXPECT_EQ(liveBytesBound(lifetimes), 192u);
}

TEST(Arena, TrainingStepsPackWithinFivePercent) {
  std::mt19937 random(11);
  for (int round = 0; round < 20; ++round) {
    auto lifetimes = trainingStep(8 + round, random);
    ArenaLayout layout = packArena(lifetimes);
    maestro::Status status = verify(lifetimes, layout);
    ASSERT_TRUE(status.isOk()) << status.message();
    EXPECT_LE(static_cast<double>(layout.bytes), 1.05 * static_cast<double>(liveBytesBound(lifetimes)));
  }
}

TEST(Arena, VerifyFindsAnOverlap) {
  std::vector<Lifetime> lifetimes = {{0, 2, 64}, {1, 3, 128}};
  EXPECT_FALSE(verify(lifetimes, {{0, 0}, 192}).isOk());
  EXPECT_FALSE(verify(lifetimes, {{0, 64}, 128}).isOk()) << "outside the arena";
  EXPECT_TRUE(verify(lifetimes, {{0, 64}, 192}).isOk());
}

} // namespace
