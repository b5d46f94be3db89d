// Sizes by headers alone: against what is in the files, and against what a run's reader and batcher say.
#include "executor/data/batcher.h"
#include "executor/data/dataset_sizes.h"
#include "executor/data/open_data.h"
#include "executor/data/webdataset.h"
#include "scratch_folder.h"
#include "tar_builder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace maestro::data {
namespace {

using testing::HasSubstr;

const std::vector<SymbolSpec> kSymbols = {
    {"batch", Combine::Sum, 1, 1}, {"seq", Combine::Max, 64, 8}, {"images", Combine::Sum, 4, 1}};

std::vector<FieldSpec> specs() {
  FieldSpec ids{.name = "ids", .dtype = DType::I64, .dims = {DimSpec::of(0), DimSpec::of(1)}};
  FieldSpec pixels{.name = "pixels", .dims = {DimSpec::of(2), DimSpec::fixed(3)}, .optional = true};
  return {ids, pixels};
}

/// A sample of so many ids, and images where there are any; payloads of `filler`.
std::string sample(int number, int64_t length, int64_t images, char filler = '\0') {
  std::string text = test::tarMember(
      fmt::format("{:04d}.ids.npy", number),
      test::npy("<i8", fmt::format("({},)", length), std::string(static_cast<size_t>(length) * 8, filler)));
  if (images > 0)
    text += test::tarMember(
        fmt::format("{:04d}.pixels.npy", number),
        test::npy("<f4", fmt::format("({}, 3)", images), std::string(static_cast<size_t>(images) * 12, filler)));
  return text;
}

class DatasetSizesTest : public testing::Test {
protected:
  std::string write(const std::string &name, const std::string &bytes) { return folder.write(name, bytes); }
  /// A shard of `count` samples of lengths first, first + 1, …, an image in every third.
  std::string shard(int number, int count, int64_t first) {
    std::string bytes;
    for (int i = 0; i < count; ++i)
      bytes += sample(number * 1000 + i, first + i, i % 3 == 0 ? 1 + i % 2 : 0);
    return write(fmt::format("{}.tar", number), bytes + test::tarEnd());
  }
  test::ScratchFolder folder;
};

TEST_F(DatasetSizesTest, areThoseOfARun) {
  std::vector<std::string> shards = {shard(0, 20, 5), shard(1, 3, 40)};
  auto sizes = readDatasetSizes(DataFiles{.paths = shards}, kSymbols, specs());
  ASSERT_TRUE(sizes.isOk()) << sizes.status().message();
  EXPECT_EQ(sizes->samples, 23u);
  EXPECT_EQ(sizes->shards, 2u);
  EXPECT_TRUE(sizes->isWhole);
  auto reader = openWebDataset({.shards = shards, .fields = {{"ids", false}, {"pixels", true}}});
  auto batcher = Batcher::create(kSymbols, specs());
  ASSERT_TRUE(reader.isOk() && batcher.isOk());
  ASSERT_TRUE((*reader)->seek({}).isOk());
  for (size_t s = 0; s < 23; ++s) {
    Sample read;
    ASSERT_TRUE((*reader)->read(read).isOk());
    std::vector<int64_t> measured(3);
    ASSERT_TRUE((*batcher)->measure(read, measured).isOk());
    EXPECT_EQ(std::vector<int64_t>(sizes->values.begin() + static_cast<ptrdiff_t>(3 * s),
                                   sizes->values.begin() + static_cast<ptrdiff_t>(3 * s + 3)),
              measured)
        << s;
  }
}

TEST_F(DatasetSizesTest, ofAMixtureAreThoseOfARun) {
  DataFiles files{.paths = {shard(0, 20, 5), shard(1, 2, 40), shard(2, 1, 50)}, .mixture = {{1, 1}, {2, 3}}};
  auto sizes = readDatasetSizes(files, kSymbols, specs());
  ASSERT_TRUE(sizes.isOk()) << sizes.status().message();
  EXPECT_EQ(sizes->samples, 23u);
  auto reader = openData(files, {.fields = specs(), .symbols = kSymbols});
  ASSERT_TRUE(reader.isOk()) << reader.status().message();
  auto batcher = Batcher::create(kSymbols, specs());
  ASSERT_TRUE(batcher.isOk() && (*reader)->seek({}).isOk());
  size_t width = kSymbols.size();
  ASSERT_EQ(sizes->values.size(), 23 * width);
  int ofSecond = 0;
  for (size_t i = 0; i < 23; ++i) {
    Sample sample;
    ASSERT_TRUE((*reader)->read(sample).isOk());
    std::vector<int64_t> measured(width);
    ASSERT_TRUE((*batcher)->measure(sample, measured).isOk());
    EXPECT_EQ(measured, std::vector<int64_t>(sizes->values.begin() + static_cast<std::ptrdiff_t>(i * width),
                                             sizes->values.begin() + static_cast<std::ptrdiff_t>((i + 1) * width)))
        << i;
    ofSecond += measured[1] >= 40;
  }
  EXPECT_EQ(ofSecond, 17); // 3 of 4, though it has 3 of 23 samples.

  files.mixture[0].weight = 1e-6;
  auto refused = readDatasetSizes(files, kSymbols, specs());
  ASSERT_FALSE(refused.isOk());
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("source 0 of --data has less than 1/4096"));
}

TEST_F(DatasetSizesTest, keepWeightsWhereDataIsNotReadWhole) {
  DataFiles files{.paths = {shard(0, 200, 1), shard(1, 200, 1)}, .mixture = {{1, 1}, {1, 9}}};
  auto sizes = readDatasetSizes(files, kSymbols, specs(), {.samples = 40, .shards = 8});
  ASSERT_TRUE(sizes.isOk()) << sizes.status().message();
  EXPECT_FALSE(sizes->isWhole);
  ASSERT_EQ(sizes->values.size(), 40 * kSymbols.size());
  int longer = 0; // The first source's four are read again and again, lengths 1 to 4; the second's 36 once.
  for (size_t i = 0; i < 40; ++i)
    longer += sizes->values[i * kSymbols.size() + 1] > 4;
  EXPECT_EQ(longer, 32);
}

TEST_F(DatasetSizesTest, areFewAndSpreadOverTheShards) {
  std::vector<std::string> shards;
  for (int number = 0; number < 10; ++number)
    shards.push_back(shard(number, 12, 1 + 5 * number));
  auto sizes = readDatasetSizes(DataFiles{.paths = shards}, kSymbols, specs(), {.samples = 10, .shards = 5});
  ASSERT_TRUE(sizes.isOk()) << sizes.status().message();
  EXPECT_EQ(sizes->samples, 10u);
  EXPECT_EQ(sizes->shards, 5u);
  EXPECT_EQ(sizes->among, 10u);
  EXPECT_FALSE(sizes->isWhole);
  std::vector<int64_t> lengths;
  for (size_t s = 0; s < 10; ++s)
    lengths.push_back(sizes->values[3 * s + 1]);
  EXPECT_THAT(lengths, testing::ElementsAre(1, 2, 11, 12, 21, 22, 31, 32, 41, 42)); // Shards 0, 2, 4, 6, 8.
}

TEST_F(DatasetSizesTest, areATableOfWhatIsThere) {
  std::string bytes = sample(1, 5, 2) + test::tarMember("0001.meta.json", "{}") + sample(2, 9, 0) +
                      test::tarMember("0002.caption.txt", "a cat");
  auto sizes = readDatasetSizes(DataFiles{.paths = {write("0.tar", bytes + test::tarEnd())}}, kSymbols, specs());
  ASSERT_TRUE(sizes.isOk()) << sizes.status().message();
  EXPECT_EQ(describeFields(*sizes), "  ids     i64   [5 to 9]\n"
                                    "  pixels  f32   [2, 3]  in 1 of 2 samples\n"
                                    "  not read: caption.txt, meta\n");
  auto plain =
      readDatasetSizes(DataFiles{.paths = {write("1.tar", sample(1, 5, 0) + test::tarEnd())}}, kSymbols, specs());
  ASSERT_TRUE(plain.isOk()) << plain.status().message();
  EXPECT_EQ(describeFields(*plain), "  ids     i64   [5]\n  pixels  absent\n");
}

/// What a shard lacks of its share, later ones give.
TEST_F(DatasetSizesTest, shortShardsLeaveMoreToOthers) {
  auto sizes = readDatasetSizes(DataFiles{.paths = {shard(0, 1, 9), shard(1, 30, 9)}}, kSymbols, specs(),
                                {.samples = 20, .shards = 2});
  ASSERT_TRUE(sizes.isOk()) << sizes.status().message();
  EXPECT_EQ(sizes->samples, 20u);
}

/// Ids far beyond any table: nothing looks at them.
TEST_F(DatasetSizesTest, noValueIsRead) {
  std::vector<FieldSpec> limited = specs();
  limited[0].indexLimit = 2;
  std::vector<std::string> shards = {write("wild.tar", sample(0, 7, 0, '\x7f') + test::tarEnd())};
  auto sizes = readDatasetSizes(DataFiles{.paths = shards}, kSymbols, limited);
  ASSERT_TRUE(sizes.isOk()) << sizes.status().message();
  EXPECT_THAT(sizes->values, testing::ElementsAre(1, 7, 0));
}

TEST_F(DatasetSizesTest, aCompressedShardIsTheLast) {
  std::vector<std::string> shards = {shard(0, 8, 5), shard(1, 8, 5)};
  for (std::string &path : shards) {
    ASSERT_EQ(std::system(("gzip -f " + path).c_str()), 0);
    path += ".gz";
  }
  auto sizes = readDatasetSizes(DataFiles{.paths = shards}, kSymbols, specs());
  ASSERT_TRUE(sizes.isOk()) << sizes.status().message();
  EXPECT_EQ(sizes->samples, 8u);
  EXPECT_EQ(sizes->shards, 1u);
  EXPECT_FALSE(sizes->isWhole);
}

TEST_F(DatasetSizesTest, whatIsWrongIsSaidAsByARun) {
  auto messageOf = [&](const std::string &bytes) {
    auto sizes = readDatasetSizes(DataFiles{.paths = {write("wrong.tar", bytes)}}, kSymbols, specs());
    return sizes.isOk() ? "" : std::string(sizes.status().message());
  };
  EXPECT_THAT(messageOf(sample(0, 65, 0) + test::tarEnd()), HasSubstr("above its bound of 64; raise dims.seq.max"));
  EXPECT_THAT(messageOf(sample(0, 9, 0)), HasSubstr("is cut off"));
  EXPECT_THAT(messageOf(test::tarEnd()), HasSubstr("no sample in 1 shard(s)"));
  EXPECT_THAT(
      messageOf(test::tarMember("a.pixels.npy", test::npy("<f4", "(1, 3)", std::string(12, '\0'))) + test::tarEnd()),
      HasSubstr("lacks field 'ids'"));
  EXPECT_THAT(messageOf(test::tarMember("a.ids.npy", test::npy(">i8", "(1,)", std::string(8, '\0'))) + test::tarEnd()),
              HasSubstr("big-endian"));
  std::vector<FieldSpec> two = specs();
  two.push_back({.name = "labels", .dtype = DType::I64, .dims = two[0].dims});
  std::string shard =
      write("uneven.tar", sample(0, 9, 0) +
                              test::tarMember("0000.labels.npy", test::npy("<i8", "(8,)", std::string(64, '\0'))) +
                              test::tarEnd());
  auto sizes = readDatasetSizes(DataFiles{.paths = {shard}}, kSymbols, two);
  EXPECT_THAT(std::string(sizes.status().message()),
              testing::AllOf(HasSubstr("sample '0000' of shard"),
                             HasSubstr("field 'labels' has 8 positions in dim 'seq', but field 'ids' has 9")));
}

} // namespace
} // namespace maestro::data
