#include "planner/emit/micro_batch_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maestro::planner {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

DimExpr symbol(const char *name) { return DimExpr::symbol(name); }

/// Text of 32 tokens as a rule and 128 at most, images that take 8 of them each, clips padded to frames.
GraphSummary graph() {
  GraphSummary summary;
  summary.dims = {{"batch", true, 1, 1, 1},
                  {"seq", false, 128, 16, 32},
                  {"images", true, 6, 1, 2},
                  {"clips", true, 2, 1, 1.5},
                  {"frames", false, 100, 1, 40}};
  summary.fields.resize(3);
  summary.fields[0].shape = {symbol("batch"), symbol("seq")};
  summary.fields[0].marks = {{7, "images", 8}};
  summary.fields[1].shape = {symbol("images"), DimExpr(3)};
  summary.fields[2].shape = {symbol("clips"), symbol("frames"), DimExpr(80)};
  return summary;
}

SectionLayout ofSize(int64_t microBatch) {
  SectionLayout layout;
  layout.microBatch = microBatch;
  return layout;
}

TEST(MicroBatchLimits, ShortSamplesTakeThePlaceOfTheLongest) {
  MicroBatchLimits limits = limitsOf(graph(), ofSize(4), {}, 1000);
  EXPECT_EQ(limits.samples, 16);
  ASSERT_EQ(limits.capacity.areas.size(), 1u);
  EXPECT_EQ(limits.capacity.areas[0].value, 4 * 128);
  EXPECT_THAT(limits.bounds, Contains(Pair("batch", 16)));
  EXPECT_THAT(limits.bounds,
              Contains(Pair("images", 32))); // As 16 samples have typically; the tokens have places for 64.
  EXPECT_THAT(limits.full(), Contains(Pair("batch", 4)));
  EXPECT_THAT(limits.full(), Contains(Pair("seq", 128)));
}

TEST(MicroBatchLimits, UsualOnesHoldAsManySamplesAsTheirLengthsAllow) {
  GraphSummary summary = graph();
  summary.dims[1].quartiles = {20, 30, 60};
  std::vector<DimSizes> usual = limitsOf(summary, ofSize(4), {}, 1000).usual;
  ASSERT_EQ(usual.size(), 2 * kQuartiles);
  EXPECT_THAT(usual[0], testing::AllOf(Contains(Pair("seq", 32)), Contains(Pair("batch", 16)),
                                       Contains(Pair("images", 32)))); // No more samples.
  EXPECT_THAT(usual[4],
              testing::AllOf(Contains(Pair("seq", 64)), Contains(Pair("batch", 8)), Contains(Pair("images", 16))));
  EXPECT_THAT(usual[5], testing::AllOf(Contains(Pair("seq", 64)), Contains(Pair("batch", 4)),
                                       Contains(Pair("images", 8)))); // Half of them.
}

TEST(MicroBatchLimits, FeaturesAreNoMoreThanTheirPlaces) {
  GraphSummary dense = graph();
  dense.dims[2].typical = 6;
  EXPECT_THAT(limitsOf(dense, ofSize(4), {}, 1000).bounds, Contains(Pair("images", 64)));
}

TEST(MicroBatchLimits, AStepHasNoMoreSamples) {
  MicroBatchLimits limits = limitsOf(graph(), ofSize(4), {}, 10);
  EXPECT_EQ(limits.samples, 10);
  EXPECT_THAT(limitsOf(graph(), ofSize(4), {}, 4).capacity.areas, IsEmpty());
}

TEST(MicroBatchLimits, FewerSamplesAreAsLong) {
  SectionLayout layout = ofSize(1);
  layout.mostSamples = 2;
  MicroBatchLimits two = limitsOf(graph(), layout, {}, 1000);
  EXPECT_EQ(two.samples, 2);
  ASSERT_EQ(two.capacity.areas.size(), 1u);
  EXPECT_EQ(two.capacity.areas[0].value, 128);
  layout.mostSamples = 1;
  MicroBatchLimits one = limitsOf(graph(), layout, {}, 1000);
  EXPECT_EQ(one.samples, 1);
  EXPECT_THAT(one.capacity.areas, IsEmpty());
  EXPECT_THAT(one.bounds, Contains(Pair("seq", 128)));
  EXPECT_THAT(one.bounds, Contains(Pair("images", 6))); // One sample may have as many.
  std::vector<std::string> vision{"images"};
  EXPECT_EQ(limitsOf(graph(), ofSize(1), vision, 1000).samples, 3);
  EXPECT_EQ(limitsOf(graph(), layout, vision, 1000).samples, 1);
}

TEST(MicroBatchLimits, ASectionOfOtherRowsCountsTheirs) {
  std::vector<std::string> audio{"clips"}, vision{"images"};
  MicroBatchLimits limits = limitsOf(graph(), ofSize(4), audio, 1000);
  EXPECT_EQ(limits.samples, 12); // A hundred frames are nearly three times the usual ones.
  ASSERT_EQ(limits.capacity.areas.size(), 1u);
  EXPECT_EQ(limits.capacity.areas[0].rows, 3u);
  EXPECT_EQ(limits.capacity.areas[0].value, 6 * 100); // What four samples have typically.
  limits = limitsOf(graph(), ofSize(4), vision, 1000);
  EXPECT_EQ(limits.samples, 4); // Nothing is padded there.
  EXPECT_EQ(limitsOf(graph(), ofSize(1), vision, 1000).samples,
            3); // Where one may have six images, three have two each.
  EXPECT_THAT(limits.capacity.areas, IsEmpty());
  EXPECT_THAT(limits.bounds, Contains(Pair("images", 8)));
}

TEST(MicroBatchLimits, PinnedInSamplesItIsWhatItWas) {
  SectionLayout layout = ofSize(4);
  layout.isCountedInSamples = true;
  MicroBatchLimits limits = limitsOf(graph(), layout, {}, 1000);
  EXPECT_EQ(limits.samples, 4);
  EXPECT_THAT(limits.capacity.areas, IsEmpty());
  ASSERT_EQ(limits.largest.size(), 1u);
  EXPECT_EQ(limits.full(), limits.bounds);
}

} // namespace
} // namespace maestro::planner
