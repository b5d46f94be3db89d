// Where chains of operators can be cut: numbers in, positions out.
#include "passes/stage_cuts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maestro {
namespace {

using testing::ElementsAre;

/// Operators with this work, and what crosses before each but the first.
CutCosts chain(const std::vector<double> &work, const std::vector<double> &crossing) {
  CutCosts costs;
  costs.work.assign(1, 0);
  for (double own : work)
    costs.work.push_back(costs.work.back() + own);
  costs.crossing = crossing;
  costs.crossing.insert(costs.crossing.begin(), 0);
  costs.crossing.push_back(0);
  costs.possible.assign(costs.work.size(), true);
  return costs;
}

TEST(StageCuts, LayersAreCutWhereLittleCrosses) {
  // Three layers of two operators; 8 cross between them, 20 within; 1 before the losses, which are next to no work.
  CutCosts costs = chain({5, 5, 5, 5, 5, 5, 0.1}, {20, 8, 20, 8, 20, 1});
  EXPECT_THAT(cheapPlaces(costs, 0.1, 1.25, 1), ElementsAre(2, 4, 6));
}

/// A distillation's loss has most of a short student's work: a head of the teacher's. Less crosses before it than
/// between layers.
TEST(StageCuts, ALossThatTakesLongHidesNoLayers) {
  CutCosts costs = chain({5, 5, 5, 5, 5, 5, 9}, {20, 8, 20, 8, 20, 1});
  EXPECT_THAT(cheapPlaces(costs, 0.1, 1.25, 1), ElementsAre(2, 4, 6));
}

TEST(StageCuts, WhatCannotBeCutIsLeft) {
  CutCosts costs = chain({1, 50, 1}, {1, 1});
  EXPECT_THAT(cheapPlaces(costs, 0.1, 1.25, 1), ElementsAre(1, 2));
  costs.possible.assign(costs.possible.size(), false);
  EXPECT_TRUE(cheapPlaces(costs, 0.1, 1.25, 1).empty());
}

TEST(StageCuts, StagesAreEven) {
  CutCosts costs = chain({5, 5, 5, 5, 5, 5, 9}, {20, 8, 20, 8, 20, 1});
  EXPECT_THAT(bestCuts(costs, 2), ElementsAre(4, 7));
  EXPECT_THAT(bestCuts(costs, 4), ElementsAre(2, 4, 6, 7));
}

} // namespace
} // namespace maestro
