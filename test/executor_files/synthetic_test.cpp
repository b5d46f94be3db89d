#include "executor/data/synthetic.h"

#include "whole_sample.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <set>

namespace maestro::data {
namespace {
using test::readWhole;
using test::WholeSample;
using ::testing::HasSubstr;

SyntheticOptions languageModel() {
  return {.symbols = {{"batch", Combine::Sum, 1, 1}, {"seq", Combine::Max, 2048, 1}},
          .fields = {{.name = "ids", .dtype = DType::I64, .dims = {DimSpec::of(0), DimSpec::of(1)}, .indexLimit = 1000},
                     {.name = "mask", .dtype = DType::I64, .dims = {DimSpec::of(0), DimSpec::of(1)}},
                     {.name = "pixels",
                      .dtype = DType::F32,
                      .dims = {DimSpec::of(0), DimSpec::fixed(3), DimSpec::fixed(5)}}},
          .sizes = *parseSyntheticSizes("seq=lognormal(512, 0.6)"),
          .samples = 500,
          .seed = 3};
}

std::unique_ptr<SampleReader> open(SyntheticOptions options, DataPosition start = {}) {
  auto reader = openSynthetic(std::move(options));
  EXPECT_TRUE(reader.isOk()) << reader.status().message();
  EXPECT_TRUE((*reader)->seek(start).isOk());
  return *std::move(reader);
}

template <typename T> std::vector<T> values(const SampleField &field) {
  std::vector<T> values(field.bytes.size() / sizeof(T));
  std::memcpy(values.data(), field.bytes.data(), field.bytes.size());
  return values;
}

TEST(SyntheticTest, drawsSizesAndValues) {
  auto reader = open(languageModel());
  WholeSample sample;
  std::vector<int64_t> lengths;
  std::set<int64_t> ids;
  double sum = 0, squares = 0, count = 0;
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(readWhole(*reader, sample).isOk());
    ASSERT_EQ(sample.fields[0].dims, sample.fields[1].dims);
    EXPECT_EQ(sample.fields[0].dims[0], 1);
    lengths.push_back(sample.fields[0].dims[1]);
    for (int64_t id : values<int64_t>(sample.fields[0]))
      ids.insert(id);
    EXPECT_THAT(values<int64_t>(sample.fields[1]), ::testing::Each(1));
    for (float value : values<float>(sample.fields[2]))
      sum += value, squares += value * value, ++count;
  }
  EXPECT_TRUE(sample.endsPass);
  std::sort(lengths.begin(), lengths.end());
  EXPECT_NEAR(static_cast<double>(lengths[250]), 512, 60);
  EXPECT_GE(lengths.front(), 1);
  EXPECT_LE(lengths.back(), 2048);
  EXPECT_GT(lengths.back(), 1200);
  EXPECT_EQ(ids.size(), 1000u);
  EXPECT_EQ(*ids.begin(), 0);
  EXPECT_NEAR(sum / count, 0, 0.05);
  EXPECT_NEAR(squares / count, 1, 0.05);
}

TEST(SyntheticTest, anySampleCanBeMadeByItself) {
  auto reader = open(languageModel());
  WholeSample sample, alone;
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(readWhole(*reader, sample).isOk());
    ASSERT_TRUE(readWhole(*open(languageModel(), {.ordinal = i}), alone).isOk());
    EXPECT_EQ(alone.key, sample.key);
    EXPECT_EQ(values<int64_t>(alone.fields[0]), values<int64_t>(sample.fields[0]));
    EXPECT_EQ(values<float>(alone.fields[2]), values<float>(sample.fields[2]));
  }
  SyntheticOptions other = languageModel();
  other.seed = 4;
  ASSERT_TRUE(readWhole(*open(other, {.ordinal = 19}), alone).isOk());
  EXPECT_NE(values<float>(alone.fields[2]), values<float>(sample.fields[2]));
}

TEST(SyntheticTest, symbolsWithoutASizeAreAtTheirBound) {
  SyntheticOptions options = languageModel();
  options.sizes.clear();
  WholeSample sample;
  ASSERT_TRUE(readWhole(*open(options), sample).isOk());
  EXPECT_EQ(toString(sample.fields[0].dims), "[1, 2048]");
}

TEST(SyntheticTest, parsesDistributions) {
  EXPECT_EQ(parseDistribution("512")->a, 512);
  EXPECT_EQ(parseDistribution(" constant( 7 )")->a, 7);
  EXPECT_EQ(parseDistribution("uniform(16, 512)")->b, 512);
  EXPECT_EQ(parseDistribution("lognormal(512, 0.6)")->kind, Distribution::Kind::LogNormal);
  EXPECT_EQ(parseDistribution("normal(36, 20)")->kind, Distribution::Kind::Normal);
  for (const char *bad :
       {"", "-1", "uniform(3)", "uniform(5, 2)", "gamma(1, 2)", "normal(1, -2)", "lognormal(0, 1)", "lognormal(5, -1)",
        "lognormal(5, x)", "uniform(1, 2", "constant(1, 2)", "nan", "uniform(1, inf)"})
    EXPECT_FALSE(parseDistribution(bad).isOk()) << bad;
  EXPECT_EQ(parseSyntheticSizes("seq=lognormal(512, 0.6); images=uniform(0, 2);")->size(), 2u);
  EXPECT_TRUE(parseSyntheticSizes("")->empty());
  EXPECT_THAT(std::string(parseSyntheticSizes("lognormal(2, 1)").status().message()), HasSubstr("no 'dim='"));
}

TEST(SyntheticTest, uniformSizesReachBothEnds) {
  SyntheticOptions options{.symbols = {{"images", Combine::Sum, 16, 1}},
                           .fields = {{.name = "x", .dims = {DimSpec::of(0)}}},
                           .sizes = {{"images", *parseDistribution("uniform(0, 3)")}},
                           .samples = 200};
  auto reader = open(options);
  std::set<int64_t> seen;
  WholeSample sample;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(readWhole(*reader, sample).isOk());
    seen.insert(sample.fields[0].dims[0]);
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(0, 1, 2, 3));
}

SyntheticOptions markedTokens() {
  SyntheticOptions options = languageModel();
  options.symbols.push_back({"images", Combine::Sum, 3, 1});
  options.symbols.push_back({"clips", Combine::Sum, 2, 1});
  options.fields[0].indexLimit = 6;
  options.fields[0].marks = {{4, 3, 3}, {1, 2, 5}}; // 3 for each clip, 5 for each image
  options.fields[1].dtype = DType::Bool;
  options.fields[1].marks = {{1, 2, 2}};
  options.fields[2].dims = {DimSpec::of(2), DimSpec::fixed(3)};
  options.fields.push_back({.name = "mel", .dtype = DType::F32, .dims = {DimSpec::of(3), DimSpec::fixed(2)}});
  options.sizes = *parseSyntheticSizes("seq=uniform(1, 40); images=uniform(0, 3); clips=uniform(0, 2)");
  return options;
}

TEST(SyntheticTest, holdsAsManyMarksAsFeaturesTakeThem) {
  auto reader = open(markedTokens());
  WholeSample sample;
  std::set<int64_t> others;
  bool sawNone = false, sawMost = false;
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(readWhole(*reader, sample).isOk());
    int64_t images = sample.fields[2].dims[0], clips = sample.fields[3].dims[0];
    std::vector<int64_t> ids = values<int64_t>(sample.fields[0]);
    ASSERT_EQ(std::count(ids.begin(), ids.end(), 1), 5 * images);
    ASSERT_EQ(std::count(ids.begin(), ids.end(), 4), 3 * clips);
    ASSERT_EQ(sample.fields[0].dims, sample.fields[1].dims);
    std::vector<uint8_t> mask = values<uint8_t>(sample.fields[1]);
    ASSERT_EQ(std::count(mask.begin(), mask.end(), 1), 2 * images);
    ASSERT_EQ(std::count(mask.begin(), mask.end(), 0), static_cast<int64_t>(mask.size()) - 2 * images);
    for (int64_t id : ids)
      others.insert(id);
    sawNone |= images + clips == 0;
    sawMost |= images == 3 && clips == 2;
  }
  EXPECT_TRUE(sawNone && sawMost);
  EXPECT_THAT(others, ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(SyntheticTest, refusesMarksWithoutRoom) {
  SyntheticOptions options = markedTokens();
  options.symbols[1].sampleMax = 12;
  auto reader = open(std::move(options));
  WholeSample sample;
  Status status;
  for (int i = 0; i < 500 && status.isOk(); ++i)
    status = readWhole(*reader, sample);
  EXPECT_EQ(status.code(), StatusCode::InvalidInput);
  EXPECT_THAT(
      std::string(status.message()),
      ::testing::AllOf(HasSubstr("field 'ids' needs "), HasSubstr("has room for 12"), HasSubstr("synthetic.images")));
}

} // namespace
} // namespace maestro::data
