// Which devices are slower than the others.
#include "executor/core/stragglers.h"

#include <gtest/gtest.h>

using namespace maestro::executor;

namespace {

constexpr uint32_t kUntilSure = Stragglers::kWindow * Stragglers::kInARow;

void add(Stragglers &stragglers, uint32_t steps, std::vector<double> busy, const std::vector<double> &planned) {
  for (uint32_t step = 0; step < steps; ++step)
    stragglers.add(busy, planned);
}

TEST(Stragglers, AreMeasuredByTheirOwnPlan) {
  Stragglers stragglers;
  // The second has twice as much to do, and the last takes longer for as much.
  add(stragglers, kUntilSure - 1, {1, 2, 1, 1.5}, {2, 4, 2, 2});
  EXPECT_TRUE(stragglers.found().empty()) << "not yet sure";
  add(stragglers, 1, {1, 2, 1, 1.5}, {2, 4, 2, 2});
  ASSERT_EQ(stragglers.found().size(), 1u);
  EXPECT_EQ(stragglers.found()[0].rank, 3u);
  EXPECT_DOUBLE_EQ(stragglers.found()[0].times, 1.5);
  add(stragglers, Stragglers::kWindow, {1, 2, 1, 1}, {2, 4, 2, 2});
  EXPECT_TRUE(stragglers.found().empty()) << "it has recovered";
}

TEST(Stragglers, OneSlowWindowIsNone) {
  Stragglers stragglers;
  for (int turn = 0; turn < 8; ++turn)
    add(stragglers, Stragglers::kWindow, {1, turn % 2 ? 3.0 : 1.0}, {1, 1});
  EXPECT_TRUE(stragglers.found().empty());
}

TEST(Stragglers, WhoHasNothingToDoIsNone) {
  Stragglers stragglers;
  add(stragglers, kUntilSure, {1, 5, 1}, {1, 0, 1});
  EXPECT_TRUE(stragglers.found().empty());
  Stragglers alone;
  add(alone, kUntilSure, {5}, {1});
  EXPECT_TRUE(alone.found().empty());
}

TEST(Stragglers, OfTwoTheSlowerOne) {
  Stragglers stragglers;
  add(stragglers, kUntilSure, {1, 2}, {1, 1});
  ASSERT_EQ(stragglers.found().size(), 1u);
  EXPECT_EQ(stragglers.found()[0].rank, 1u);
}

} // namespace
