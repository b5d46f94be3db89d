// Which tables of positions look as if they were never meant to train.
#include "planner/driver/sinusoidal_tables.h"

#include "gtest/gtest.h"

#include <cmath>
#include <random>

namespace maestro::planner {
namespace {

constexpr size_t kColumns = 32;

/// Of kColumns columns; value(position, column) with frequencies as Vaswani et al. have them.
template <typename Value> std::vector<float> table(size_t rows, Value value) {
  std::vector<float> values;
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < kColumns; ++c)
      values.push_back(static_cast<float>(value(static_cast<double>(r), c)));
  return values;
}

double angle(double position, size_t pair) {
  return position / std::pow(10'000.0, static_cast<double>(2 * pair) / kColumns);
}

/// Sines in the first half, cosines in the second: Marian, Pegasus, RoFormer, Whisper.
double inHalves(double position, size_t c) {
  return c < kColumns / 2 ? std::sin(angle(position, c)) : std::cos(angle(position, c - kColumns / 2));
}
/// Side by side: the tutorial's PositionalEncoding.
double inPairs(double position, size_t c) {
  return c % 2 ? std::cos(angle(position, c / 2)) : std::sin(angle(position, c / 2));
}

TEST(SinusoidalTables, AreTold) {
  EXPECT_TRUE(isSinusoidal(table(64, inHalves), kColumns));
  EXPECT_TRUE(isSinusoidal(table(16, inPairs), kColumns));
  EXPECT_TRUE(isSinusoidal(table(64, [](double p, size_t c) { return p == 1 ? 0 : inHalves(p + 2, c); }), kColumns))
      << "a padding row";
  auto rounded = [](double p, size_t c) { return std::round(inPairs(p, c) * 128) / 128; };
  EXPECT_TRUE(isSinusoidal(table(64, rounded), kColumns)) << "as bf16 has them";
}

TEST(SinusoidalTables, AreNotWhatLearns) {
  std::mt19937_64 random(3);
  for (double deviation : {0.02, 0.5, 1.0}) {
    auto drawn = [&](double, size_t) { return std::normal_distribution<double>(0, deviation)(random); };
    EXPECT_FALSE(isSinusoidal(table(64, drawn), kColumns)) << deviation;
  }
  EXPECT_FALSE(isSinusoidal(table(64, [](double, size_t) { return 1.0; }), kColumns));
  EXPECT_FALSE(isSinusoidal(table(64, [](double, size_t) { return 0.0; }), kColumns));
  EXPECT_FALSE(isSinusoidal(table(64, [](double p, size_t) { return p; }), kColumns));
  auto smooth = [&](double p, size_t c) { return inHalves(p, c) + std::normal_distribution<double>(0, 0.1)(random); };
  EXPECT_FALSE(isSinusoidal(table(64, smooth), kColumns)) << "a table that began as sines and learnt";
  EXPECT_FALSE(isSinusoidal(table(7, inHalves), kColumns)) << "too few rows to tell";
  EXPECT_FALSE(isSinusoidal({}, kColumns));
  EXPECT_FALSE(isSinusoidal(table(64, inHalves), 0));
}

} // namespace
} // namespace maestro::planner
