// What a micro-batch may hold: samples, dims and padded tokens, wherever it is asked.
#include "test/wavefront/random_problems.h"
#include "wavefront/formation.h"
#include "wavefront/lower_bound.h"
#include "wavefront/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace maestro::wavefront {
namespace {

using testing::HasSubstr;

/// Samples of so many tokens on one device; forward and backward 400 µs a micro-batch and 1 µs a padded token each.
Problem language(const std::vector<int64_t> &lengths, int64_t tokens) {
  Problem problem;
  problem.dims = {{"batch", true, 1}, {"seq", false, 8}};
  for (int64_t length : lengths)
    problem.sizes.insert(problem.sizes.end(), {1, length});
  Cost cost{{{400'000'000, {}}, {1'000'000, {0, 1}}}};
  Section section{"language", true, false, {}, 64, {64, 2048}, {{0, 1, tokens}}, {Stage{cost, cost, {}, 4, {}}}, {{0}}};
  problem.sections = {section};
  return problem;
}

std::string fault(const Problem &problem) { return std::string(check(problem).message()); }

TEST(Capacity, OneRuleForSamplesDimsAndPaddedTokens) {
  Section section = language({8}, 64).sections[0];
  auto holds = [&](int64_t samples, int64_t rows, int64_t length) {
    int64_t dims[] = {rows, length};
    return fits(section, samples, dims);
  };
  EXPECT_TRUE(holds(8, 8, 8));
  EXPECT_FALSE(holds(8, 9, 8));
  EXPECT_FALSE(holds(8, 8, 16));
  EXPECT_TRUE(holds(64, 0, 2048));
  EXPECT_FALSE(holds(65, 0, 8));
  EXPECT_FALSE(holds(1, 0, 2056));
  section.capacity = {INT64_MAX, INT64_MAX};
  EXPECT_FALSE(holds(1, int64_t{1} << 40, int64_t{1} << 40)); // The product alone is more than 64 bits hold.
}

TEST(Capacity, CheckNamesWhatDoesNotFit) {
  EXPECT_TRUE(check(language({64, 8}, 64)).isOk());
  EXPECT_THAT(
      fault(language({8, 60}, 63)),
      HasSubstr("sample 1 of the batch: batch = 1 times seq = 64 exceeds the capacity 63 of a micro-batch of section "
                "language; raise dims.batch.max or dims.seq.max and plan again"));
  Problem problem = language({8}, 64);
  problem.sections[0].areas[0].padded = 2;
  EXPECT_THAT(fault(problem), HasSubstr("section language: an area over dim 2 of 2"));
  problem.sections[0].areas[0] = {1, 0, 64};
  EXPECT_THAT(fault(problem), HasSubstr("an area of seq and batch; the first must be a sum, the second a maximum"));
}

TEST(Capacity, VerifyNamesBothDimsTheProductAndTheCapacity) {
  Problem problem = language({8, 8, 64, 8}, 1024), tighter = problem;
  Schedule schedule;
  Scheduler().run(problem, Order::FileOrder, schedule);
  ASSERT_EQ(schedule.microBatches.size(), 1u);
  EXPECT_TRUE(verify(problem, schedule).isOk());
  tighter.sections[0].areas[0].capacity = 255;
  EXPECT_THAT(
      verify(tighter, schedule).message(),
      HasSubstr("micro-batch 0 of language has batch = 4 times seq = 64: 256 padded tokens; its capacity is 255"));
}

/// As language(), without padding: 40 samples of three lengths, and a section beside it that does not read lengths.
Problem unpadded() {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 40; ++i)
    lengths.push_back(16 * (1 + i * i % 3));
  Problem problem = language(lengths, 1024);
  problem.dims[1] = {"seq", false, 1, true};
  problem.sections.push_back(problem.sections[0]);
  problem.sections[1].name = "rows";
  problem.sections[0].unpadded = {1};
  problem.sections[1].areas.clear();
  problem.sections[1].stages[0].forward = problem.sections[1].stages[0].backward = {{{1'000'000, {0}}}};
  return problem;
}

Problem unpaddedWithout(size_t section) {
  Problem problem = unpadded();
  problem.sections[section].unpadded.clear();
  return problem;
}

TEST(Capacity, SamplesOfAnUnpaddedDimAgree) {
  Dim dim{"seq", false, 1, true};
  EXPECT_EQ(combine(dim, 0, 5), 5);
  EXPECT_EQ(combine(dim, 5, 5), 5);
  EXPECT_EQ(combine(dim, 5, 0), 5); // A sample without any is no different one.
  EXPECT_EQ(combine(dim, 5, 4), kDiffering);
  EXPECT_EQ(combine(dim, kDiffering, 5), kDiffering);
  Problem problem = unpadded();
  int64_t differing[] = {2, kDiffering};
  EXPECT_FALSE(fits(problem.sections[0], 2, differing));
  EXPECT_TRUE(fits(problem.sections[1], 2, differing));
}

TEST(Capacity, UnpaddedSectionsShareMicroBatchesByLength) {
  Problem problem = unpadded();
  ASSERT_TRUE(check(problem).isOk()) << check(problem).message();
  for (Order order : {Order::FileOrder, Order::Wavefront}) {
    Schedule schedule;
    Scheduler().run(problem, order, schedule);
    ASSERT_TRUE(verify(problem, schedule).isOk()) << verify(problem, schedule).message();
    auto count = [&](uint32_t section) {
      return std::count_if(schedule.microBatches.begin(), schedule.microBatches.end(),
                           [&](const MicroBatch &group) { return group.section == section; });
    };
    if (order == Order::Wavefront)
      EXPECT_LE(count(0), 12) << "samples of equal length do not share micro-batches";
    for (const MicroBatch &group : schedule.microBatches) // What differs is a maximum as any other.
      EXPECT_LE(schedule.dims[group.firstDim + 1], 48);
  }
}

TEST(Capacity, VerifyFindsPaddingWhereThereMustBeNone) {
  Problem problem = unpadded(), padded = problem;
  padded.sections[0].unpadded.clear();
  padded.dims[1].unpadded = false;
  EXPECT_THAT(fault(unpaddedWithout(0)), HasSubstr("section language: a cost in seq, which is unpadded"));
  Schedule schedule;
  Scheduler().run(padded, Order::FileOrder, schedule);
  EXPECT_THAT(verify(problem, schedule).message(),
              HasSubstr("holds samples of different seq, which must not be padded"));
}

/// The file's order has 64, 8, 8, … tokens: what is padded to 64 leaves room for four, eights for 32.
TEST(Capacity, EveryFormationKeepsIt) {
  Problem problem = language({64, 8, 8, 8, 8, 8, 8, 64, 64, 8}, 256);
  std::vector<uint32_t> order(problem.sampleCount());
  std::iota(order.begin(), order.end(), 0u);
  ProblemIndex index;
  index.build(problem);
  auto sizes = [&](auto form) {
    Groups groups;
    form(groups);
    std::vector<uint32_t> made;
    for (const MicroBatch &group : groups.list)
      made.push_back(group.samples);
    return made;
  };
  EXPECT_THAT(sizes([&](Groups &groups) { groupInOrder(problem, index, order, 64, groups); }),
              testing::ElementsAre(4, 4, 2));
  EXPECT_THAT(sizes([&](Groups &groups) { groupInBlocks(problem, index, order, groups); }),
              testing::ElementsAre(4, 4, 2));
  // A narrower section cuts the blocks of both.
  problem.sections.push_back(problem.sections[0]);
  problem.sections[1].name = "narrow";
  problem.sections[1].areas[0].capacity = 128;
  index.build(problem);
  EXPECT_THAT(sizes([&](Groups &groups) { groupInBlocks(problem, index, order, groups); }),
              testing::ElementsAre(2, 5, 2, 1, 2, 5, 2, 1));
}

TEST(Capacity, TheBoundCountsMicroBatchesThatPaddedTokensForce) {
  // 1,024 tokens in micro-batches of 256: four, each 400 µs twice.
  EXPECT_EQ(lowerBound(language(std::vector<int64_t>(16, 64), 256)), 4 * 800'000 + 1024 * 2'000);
}

/// Where the order is free, samples of like length come together, so that little is padded and micro-batches are full.
TEST(Capacity, SamplesOfLikeLengthShareAMicroBatch) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    std::vector<int64_t> lengths;
    for (int i = 0; i < 256; ++i)
      lengths.push_back(int64_t{1} << random.in(6, 10)), lengths.back() += random.in(0, lengths.back());
    Problem problem = language(lengths, 2048);
    ASSERT_TRUE(check(problem).isOk()) << check(problem).message();
    Schedule schedule;
    Scheduler().run(problem, Order::Wavefront, schedule);
    ASSERT_TRUE(verify(problem, schedule).isOk());
    int64_t needed = 0, padded = 0, least = 0, most = 0;
    for (const MicroBatch &group : schedule.microBatches) {
      padded += schedule.dims[group.firstDim] * schedule.dims[group.firstDim + 1];
      most = std::max(most, int64_t{group.samples});
    }
    for (int64_t length : lengths)
      needed += (length + 7) / 8 * 8;
    least = (needed + 2047) / 2048;
    EXPECT_LE(padded * 100, needed * 103) << "seed " << seed;
    EXPECT_GE(most, 14) << "seed " << seed; // Of the shortest, 32 fit.
    EXPECT_LE(static_cast<int64_t>(schedule.microBatches.size()), least * 4 / 3) << "seed " << seed;
  }
}

} // namespace
} // namespace maestro::wavefront
