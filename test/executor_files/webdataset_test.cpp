#include "executor/data/webdataset.h"

#include "scratch_folder.h"
#include "tar_builder.h"
#include "whole_sample.h"

#include <gmock/gmock.h>

#include <set>

namespace maestro::data {
namespace {
using test::readWhole;
using test::ScratchFolder;
using test::WholeSample;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string golden(const std::string &name) { return std::string(MAESTRO_GOLDEN_FILES) + "/" + name; }

WebDatasetOptions goldenOptions() {
  return {.shards = {golden("gnu.tar"), golden("pax.tar"), golden("ustar.tar.gz")},
          .fields = {{"label", false}, {"ids", false}, {"weight", true}}};
}

std::unique_ptr<SampleReader> openAt(WebDatasetOptions options, DataPosition start = {}) {
  auto reader = openWebDataset(std::move(options));
  EXPECT_TRUE(reader.isOk()) << reader.status().message();
  Status status = (*reader)->seek(start);
  EXPECT_TRUE(status.isOk()) << status.message();
  return *std::move(reader);
}

std::vector<int64_t> integers(const SampleField &field) {
  std::vector<int64_t> values(field.bytes.size() / 8);
  std::memcpy(values.data(), field.bytes.data(), field.bytes.size());
  return values;
}

std::vector<std::string> keys(SampleReader &reader, size_t count) {
  std::vector<std::string> keys;
  WholeSample sample;
  for (size_t i = 0; i < count; ++i) {
    Status status = readWhole(reader, sample);
    EXPECT_TRUE(status.isOk()) << status.message();
    keys.push_back(sample.key);
  }
  return keys;
}

TEST(WebDatasetTest, readsValuesInFileOrderAcrossShards) {
  auto reader = openAt(goldenOptions());
  WholeSample sample;
  for (int k = 0; k < 9; ++k) {
    ASSERT_TRUE(readWhole(*reader, sample).isOk());
    EXPECT_EQ(sample.ordinal, static_cast<uint64_t>(k));
    EXPECT_EQ(sample.endsPass, k == 8);
    if (k == 5) { // The one with the long name, which follows s004.
      EXPECT_EQ(sample.key, "train/" + std::string(120, 'l'));
      continue;
    }
    int number = k < 5 ? k : k - 1;
    EXPECT_EQ(sample.key, "train/s00" + std::to_string(number));
    EXPECT_THAT(integers(sample.fields[0]), ElementsAre(number % 5));
    EXPECT_EQ(sample.fields[1].dims[0], number + 1);
    EXPECT_EQ(integers(sample.fields[1]).back(), 11 * number);
    EXPECT_EQ(sample.fields[2].present, number % 2 == 1);
  }
  EXPECT_EQ(sample.shard, golden("ustar.tar.gz"));
  EXPECT_EQ(sample.next, (DataPosition{.pass = 1}));
  EXPECT_THAT(keys(*reader, 1), ElementsAre("train/s000"));
}

TEST(WebDatasetTest, continuesFromEveryPosition) {
  for (bool shuffle : {false, true}) {
    WebDatasetOptions options = goldenOptions();
    options.shuffle = shuffle;
    options.seed = 5;
    auto reader = openAt(options);
    std::vector<DataPosition> positions = {{}};
    std::vector<std::string> all;
    WholeSample sample;
    for (int i = 0; i < 25; ++i) {
      ASSERT_TRUE(readWhole(*reader, sample).isOk());
      positions.push_back(sample.next);
      all.push_back(sample.key);
    }
    for (size_t start = 0; start < 25; ++start) {
      auto resumed = openAt(options, positions[start]);
      EXPECT_EQ(keys(*resumed, 25 - start),
                std::vector<std::string>(all.begin() + static_cast<long>(start), all.end()));
    }
  }
}

TEST(WebDatasetTest, shufflesEachPassBySeed) {
  WebDatasetOptions options = goldenOptions();
  options.shuffle = true;
  std::vector<std::string> two = keys(*openAt(options), 18);
  std::vector<std::string> first(two.begin(), two.begin() + 9), second(two.begin() + 9, two.end());
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), 9u);
  EXPECT_EQ(std::set<std::string>(second.begin(), second.end()).size(), 9u);
  EXPECT_NE(first, second);
  EXPECT_EQ(keys(*openAt(options), 18), two);
  options.seed = 1;
  EXPECT_NE(keys(*openAt(options), 9), first);
}

TEST(WebDatasetTest, aPositionOutsideTheDataIsRefused) {
  auto reader = openWebDataset(goldenOptions());
  ASSERT_TRUE(reader.isOk());
  Status status = (*reader)->seek({.shard = 3});
  EXPECT_THAT(std::string(status.message()), HasSubstr("position is shard 3, but there are 3"));
  status = (*reader)->seek({.shard = 1, .sample = 3});
  EXPECT_THAT(std::string(status.message()), HasSubstr("not the data that the checkpoint was made with"));
  WebDatasetOptions options = goldenOptions();
  options.shuffle = true;
  status = (*openWebDataset(options))->seek({.ordinal = 9});
  EXPECT_FALSE(status.isOk());
}

TEST(WebDatasetTest, passesOverShardsWithoutSamples) {
  ScratchFolder folder;
  std::string none = folder.write("none.tar", test::tarEnd());
  WebDatasetOptions options{.shards = {none, golden("gnu.tar"), none}, .fields = {{"ids", false}}};
  auto reader = openAt(options);
  WholeSample sample;
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(readWhole(*reader, sample).isOk());
  EXPECT_TRUE(sample.endsPass);
  auto empty = openWebDataset({.shards = {none, none}, .fields = {{"ids", false}}});
  Status status = (*empty)->seek({});
  EXPECT_THAT(std::string(status.message()), HasSubstr("no sample in 2 shard(s)"));
}

/// `count` samples whose one value is their number.
std::string numberedShard(int64_t count) {
  std::string tar;
  for (int64_t i = 0; i < count; ++i)
    tar += test::tarMember(std::to_string(i) + ".n.npy", test::npy("<i8", "()", test::bytesOf<int64_t>({i})));
  return tar;
}

TEST(WebDatasetTest, indexesALongShardPieceByPiece) {
  ScratchFolder folder;
  WebDatasetOptions options{.shards = {folder.write("long.tar", numberedShard(3000) + test::tarEnd())},
                            .fields = {{"n", false}}};
  auto reader = openAt(options);
  WholeSample sample;
  for (int64_t i = 0; i < 6000; ++i) {
    ASSERT_TRUE(readWhole(*reader, sample).isOk());
    ASSERT_EQ(integers(sample.fields[0])[0], i % 3000);
    ASSERT_EQ(sample.endsPass, i % 3000 == 2999);
  }
  ASSERT_TRUE(reader->seek({.sample = 2500, .ordinal = 2500}).isOk());
  ASSERT_TRUE(readWhole(*reader, sample).isOk());
  EXPECT_EQ(integers(sample.fields[0])[0], 2500);
}

TEST(WebDatasetTest, damageIsReportedWhereReadingMeetsIt) {
  ScratchFolder folder;
  auto reader = openAt({.shards = {folder.write("cut.tar", numberedShard(3000))}, .fields = {{"n", false}}});
  WholeSample sample;
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(readWhole(*reader, sample).isOk());
  Status status;
  for (int i = 1000; i < 3000 && status.isOk(); ++i)
    status = readWhole(*reader, sample);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no end-of-archive block"));
}

TEST(WebDatasetTest, keepsOnlySoManyShardsOpen) {
  ScratchFolder folder;
  WebDatasetOptions options{.shards = {}, .fields = {{"n", false}}};
  for (int i = 0; i < 200; ++i)
    options.shards.push_back(folder.write(std::to_string(i) + ".tar", numberedShard(2) + test::tarEnd()));
  auto openFiles = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  auto before = openFiles();
  auto reader = openAt(options);
  WholeSample sample;
  for (int i = 0; i < 800; ++i)
    ASSERT_TRUE(readWhole(*reader, sample).isOk());
  EXPECT_EQ(sample.next, (DataPosition{.pass = 2}));
  EXPECT_LE(openFiles() - before, 70);
}

/// Sizes run ahead: the shard is long left when its values are read.
TEST(WebDatasetTest, valuesOfAPackedShardAreThereAfterTheNextOnesSizes) {
  WebDatasetOptions options{.shards = {golden("ustar.tar.gz"), golden("ustar.tar.zst"), golden("gnu.tar")},
                            .fields = {{"ids", false}}};
  auto reader = openAt(options);
  std::vector<WholeSample> samples(9);
  for (WholeSample &sample : samples)
    ASSERT_TRUE(reader->read(sample).isOk());
  for (size_t i : {8u, 0u, 4u, 1u}) {
    std::vector<uint8_t> all = {1};
    ASSERT_TRUE(ValueReader().read(samples[i], all, samples[i].storage).isOk());
    auto whole = openAt(options);
    WholeSample expected;
    for (size_t s = 0; s <= i; ++s)
      ASSERT_TRUE(readWhole(*whole, expected).isOk());
    EXPECT_EQ(samples[i].key, expected.key);
    EXPECT_EQ(integers(samples[i].fields[0]), integers(expected.fields[0]));
  }
}

TEST(WebDatasetTest, decodesWhatCannotBeReadInPlace) {
  ScratchFolder folder;
  std::string tar =
      test::tarMember("a.m.npy", test::npy("<i4", "(2, 2)", test::bytesOf<int32_t>({1, 2, 3, 4}), "True")) +
      test::tarMember("a.u.npy", test::npy("<u2", "(2,)", test::bytesOf<uint16_t>({65535, 1}))) +
      test::tarMember("a.b.npy", test::npy("|b1", "(3,)", std::string("\0\1\xff", 3))) +
      test::tarMember("a.t.json", "true") + test::tarMember("a.f.json", "2.5") + test::tarEnd();
  auto reader = openAt({.shards = {folder.write("a.tar", tar)},
                        .fields = {{"m", false}, {"u", false}, {"b", false}, {"t", false}, {"f", false}}});
  WholeSample sample;
  ASSERT_TRUE(readWhole(*reader, sample).isOk());
  auto raw = [&](size_t field) {
    return std::string(reinterpret_cast<const char *>(sample.fields[field].bytes.data()),
                       sample.fields[field].bytes.size());
  };
  EXPECT_EQ(raw(0), test::bytesOf<int32_t>({1, 3, 2, 4}));
  EXPECT_EQ(raw(1), test::bytesOf<int32_t>({65535, 1}));
  EXPECT_EQ(raw(2), std::string("\0\1\1", 3));
  EXPECT_EQ(raw(3), std::string("\1"));
  EXPECT_EQ(raw(4), test::bytesOf<double>({2.5}));
  EXPECT_EQ(sample.fields[3].dtype, DType::Bool);
  for (const SampleField &field : sample.fields)
    EXPECT_EQ(reinterpret_cast<uintptr_t>(field.bytes.data()) % 64, 0u);
}

} // namespace
} // namespace maestro::data
