// The largest micro-batches against all micro-batches.
#include "plan/capacity.h"

#include "plan/dims.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace maestro::plan {
namespace {

enum : uint32_t { Rows, Seq, Frames, Images };

bool holds(const Capacity &capacity, const std::vector<int64_t> &sizes) {
  return std::all_of(capacity.areas.begin(), capacity.areas.end(),
                     [&](const Capacity::Area &area) { return sizes[area.rows] * sizes[area.padded] <= area.value; });
}

/// The largest value of `measure` over all micro-batches of a capacity of three symbols.
template <typename Measure> int64_t mostOfAll(const Capacity &capacity, Measure measure) {
  int64_t most = 0;
  std::vector<int64_t> sizes(4, capacity.bounds[Images]);
  for (sizes[Rows] = 1; sizes[Rows] <= capacity.bounds[Rows]; ++sizes[Rows])
    for (sizes[Seq] = capacity.multiples[Seq]; sizes[Seq] <= capacity.bounds[Seq];
         sizes[Seq] += capacity.multiples[Seq])
      for (sizes[Frames] = capacity.multiples[Frames]; sizes[Frames] <= capacity.bounds[Frames];
           sizes[Frames] += capacity.multiples[Frames])
        if (holds(capacity, sizes))
          most = std::max(most, measure(sizes));
  return most;
}

template <typename Measure> int64_t mostOfLargest(const Capacity &capacity, Measure measure) {
  int64_t most = 0;
  for (const std::vector<int64_t> &sizes : largestMicroBatches(capacity))
    most = std::max(most, measure(sizes));
  return most;
}

TEST(Capacity, WithoutAreasTheBoundsAreLargest) {
  EXPECT_THAT(largestMicroBatches({{4, 24, DimTable::kUndefined}, {1, 8, 1}, {}}),
              testing::ElementsAre(testing::ElementsAre(4, 24, DimTable::kUndefined)));
}

TEST(Capacity, TheLongestSamplesComeFirst) {
  Capacity capacity{{6, 24}, {1, 8}, {{Rows, Seq, 48}}};
  EXPECT_THAT(largestMicroBatches(capacity),
              testing::ElementsAre(testing::ElementsAre(2, 24), testing::ElementsAre(3, 16), testing::ElementsAre(4, 8),
                                   testing::ElementsAre(5, 8), testing::ElementsAre(6, 8)));
}

/// Whatever grows with every symbol: tokens, scores of attention, rows, sums of lengths, sizes rounded down.
TEST(Capacity, NothingThatGrowsIsLargerAnywhere) {
  std::mt19937_64 random(7);
  auto pick = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for (int round = 0; round < 60; ++round) {
    Capacity capacity;
    capacity.multiples = {1, pick(1, 4), pick(1, 3), 1};
    capacity.bounds = {pick(2, 40), capacity.multiples[Seq] * pick(1, 12), capacity.multiples[Frames] * pick(1, 6), 5};
    int64_t full = pick(1, capacity.bounds[Rows]);
    auto add = [&](uint32_t padded, int64_t longest) { // Room for all rows if they are short, as plans have it.
      capacity.areas.push_back(
          {Rows, padded,
           std::max(longest * capacity.bounds[padded], capacity.bounds[Rows] * capacity.multiples[padded])});
    };
    add(Seq, full);
    if (pick(0, 1))
      add(Frames, pick(1, capacity.bounds[Rows]));
    auto tokens = [](const auto &s) { return s[Rows] * s[Seq]; };
    auto scores = [](const auto &s) { return s[Rows] * s[Seq] * s[Seq]; };
    auto rows = [](const auto &s) { return s[Rows] * s[Rows]; };
    auto sums = [](const auto &s) { return s[Rows] * (s[Seq] + s[Frames] + 1) / 2 * s[Images]; };
    EXPECT_EQ(mostOfLargest(capacity, tokens), mostOfAll(capacity, tokens)) << round;
    EXPECT_EQ(mostOfLargest(capacity, scores), mostOfAll(capacity, scores)) << round;
    EXPECT_EQ(mostOfLargest(capacity, rows), mostOfAll(capacity, rows)) << round;
    EXPECT_EQ(mostOfLargest(capacity, sums), mostOfAll(capacity, sums)) << round;
  }
}

TEST(Capacity, ManyRowsShareCornersThatAreHardlyLarger) {
  Capacity capacity{{100'000, 512, 1, 1}, {1, 1, 1, 1}, {{Rows, Seq, 40 * 512}}};
  EXPECT_LE(largestMicroBatches(capacity).size(), 400u);
  EXPECT_GE(mostOfLargest(capacity, [](const auto &s) { return s[Rows] * s[Seq]; }), 40 * 512);
  EXPECT_LE(mostOfLargest(Capacity{{320, 512, 1, 1}, {1, 1, 1, 1}, {{Rows, Seq, 40 * 512}}},
                          [](const auto &s) { return s[Rows] * s[Seq]; }),
            40 * 512 * 33 / 32);
  EXPECT_THAT(largestMicroBatches(capacity), testing::Contains(testing::ElementsAre(100'000, 1, 1, 1)));
}

} // namespace
} // namespace maestro::plan
