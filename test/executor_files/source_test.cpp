#include "executor/data/data_identity.h"
#include "executor/data/source.h"

#include "executor/data/synthetic.h"
#include "executor/data/webdataset.h"
#include "test/allocations/allocations.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace maestro::data {
namespace {
using ::testing::HasSubstr;

/// Ten numbered samples a pass; fails where it is told to.
class CountingReader final : public SampleReader {
public:
  explicit CountingReader(uint64_t failAt = UINT64_MAX, std::atomic<uint64_t> *count = nullptr)
      : failAt(failAt), count(count) {}
  Status seek(const DataPosition &position) override {
    current = position;
    return {};
  }
  Status read(Sample &sample) override {
    if (reads++ == failAt)
      return Status::invalidInput("sample 'bad' is damaged");
    if (count)
      ++*count;
    sample.ordinal = current.ordinal++;
    sample.endsPass = current.ordinal == 10;
    if (sample.endsPass)
      current = {.pass = current.pass + 1};
    sample.next = current;
    return {};
  }
  DataPosition current;
  uint64_t reads = 0, failAt;
  std::atomic<uint64_t> *count;
};

std::unique_ptr<SampleSource> source(std::unique_ptr<SampleReader> reader, size_t queue, DataPosition start = {},
                                     size_t batches = 1) {
  auto made = SampleSource::create(std::move(reader), {queue, batches}, start);
  EXPECT_TRUE(made.isOk());
  return *std::move(made);
}

TEST(SampleSourceTest, aPassEndsWithASmallerBatch) {
  for (size_t queue : {1u, 3u, 64u}) {
    auto samples = source(std::make_unique<CountingReader>(), queue);
    DataPosition next;
    std::vector<size_t> counts;
    std::vector<bool> ends;
    for (int i = 0; i < 6; ++i) {
      auto batch = samples->next(4);
      ASSERT_TRUE(batch.isOk());
      counts.push_back((*batch)->count);
      ends.push_back((*batch)->endsPass);
      next = (*batch)->next;
    }
    EXPECT_THAT(counts, ::testing::ElementsAre(4, 4, 2, 4, 4, 2));
    EXPECT_THAT(ends, ::testing::ElementsAre(false, false, true, false, false, true));
    EXPECT_EQ(next, (DataPosition{.pass = 2}));
  }
}

TEST(SampleSourceTest, startsWhereItIsTold) {
  auto samples = source(std::make_unique<CountingReader>(), 2, {.pass = 1, .ordinal = 7});
  auto batch = samples->next(2);
  ASSERT_TRUE(batch.isOk());
  EXPECT_EQ((*batch)->view()[0].ordinal, 7u);
  EXPECT_EQ((*batch)->next, (DataPosition{.pass = 1, .ordinal = 9}));
}

TEST(SampleSourceTest, aFailureComesAfterTheSamplesBeforeIt) {
  auto samples = source(std::make_unique<CountingReader>(5), 8);
  ASSERT_TRUE(samples->next(5).isOk());
  for (int again = 0; again < 2; ++again)
    EXPECT_THAT(std::string(samples->next(1).status().message()), HasSubstr("'bad' is damaged"));
}

TEST(SampleSourceTest, readsNoFurtherAheadThanItMay) {
  std::atomic<uint64_t> reads{0};
  {
    auto samples = source(std::make_unique<CountingReader>(UINT64_MAX, &reads), 4);
    ASSERT_TRUE(samples->next(3).isOk());
    // Nothing tells when the thread has come as far as it may; this long it has.
    for (int wait = 0; wait < 200 && reads < 7; ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(reads, 7u);
  }
  EXPECT_EQ(reads, 7u);
}

TEST(SampleSourceTest, allocatesNothingForSizesSeenBefore) {
  std::string golden = MAESTRO_GOLDEN_FILES;
  WebDatasetOptions options{.shards = {golden + "/gnu.tar"},
                            .fields = {{"ids", false}, {"label", false}, {"weight", true}}};
  SyntheticOptions synthetic{
      .symbols = {{"batch", Combine::Sum, 1, 1}, {"seq", Combine::Max, 64, 1}},
      .fields = {{.name = "ids", .dtype = DType::I64, .dims = {DimSpec::of(0), DimSpec::of(1)}, .indexLimit = 9}},
      .sizes = *parseSyntheticSizes("seq=uniform(1, 64)"),
      .samples = 100};
  for (bool isSynthetic : {false, true}) {
    auto samples = source(isSynthetic ? *openSynthetic(synthetic) : *openWebDataset(options), 4, {}, 3);
    auto step = [&] { // Values of three samples in five.
      auto batch = samples->next(5);
      ASSERT_TRUE(batch.isOk());
      for (size_t s = 0; s < std::min<size_t>((*batch)->count, 3); ++s)
        std::ranges::fill((*batch)->wantedOf(s), uint8_t{1});
      samples->read(**batch);
      ASSERT_TRUE(samples->await(**batch).isOk());
    };
    for (int warm = 0; warm < 600; ++warm)
      step();
    int64_t before = test::allocations();
    for (int i = 0; i < 300; ++i)
      step();
    EXPECT_EQ(test::allocations() - before, 0) << (isSynthetic ? "synthetic" : "webdataset");
  }
}

/// Numbers 10 · sample + field; some cannot be read.
class NumberedValues final : public SampleValues {
public:
  Status read(uint64_t number, size_t field, std::span<std::byte> values) override {
    reads.push_back(10 * number + field);
    if (number == bad)
      return Status::invalidInput("sample 'bad' holds no number");
    auto value = static_cast<int64_t>(10 * number + field);
    std::memcpy(values.data(), &value, sizeof value);
    return {};
  }
  std::vector<uint64_t> reads;
  uint64_t bad = UINT64_MAX;
};

class NumberedReader final : public SampleReader {
public:
  explicit NumberedReader(std::shared_ptr<NumberedValues> values) : values(std::move(values)) {}
  Status seek(const DataPosition &) override { return {}; }
  Status read(Sample &sample) override {
    sample.fields.assign(2, {true, DType::I64, {}, {}});
    sample.values = values;
    sample.number = next++;
    return {};
  }
  std::shared_ptr<NumberedValues> values;
  uint64_t next = 0;
};

int64_t valueOf(const SampleField &field) {
  int64_t value = -1;
  if (!field.bytes.empty())
    std::memcpy(&value, field.bytes.data(), sizeof value);
  return value;
}

TEST(SampleSourceTest, readsTheValuesThatAreWantedAndNoOther) {
  auto values = std::make_shared<NumberedValues>();
  auto samples = source(std::make_unique<NumberedReader>(values), 4, {}, 2);
  SampleBatch &first = **samples->next(3), &second = **samples->next(3);
  first.wantedOf(0)[1] = first.wantedOf(2)[0] = first.wantedOf(2)[1] = 1;
  second.wantedOf(1)[0] = 1;
  samples->read(first);
  samples->read(second);
  ASSERT_TRUE(samples->await(second).isOk());
  ASSERT_TRUE(samples->await(first).isOk());
  EXPECT_THAT(values->reads, ::testing::ElementsAre(1, 20, 21, 40));
  EXPECT_EQ(valueOf(first.samples[0].fields[0]), -1);
  EXPECT_EQ(valueOf(first.samples[0].fields[1]), 1);
  EXPECT_EQ(valueOf(first.samples[1].fields[0]), -1);
  EXPECT_EQ(valueOf(first.samples[2].fields[0]), 20);
  EXPECT_EQ(valueOf(first.samples[2].fields[1]), 21);
  EXPECT_EQ(valueOf(second.samples[1].fields[0]), 40);
  EXPECT_EQ(first.valueBytes, 3 * sizeof(int64_t));
  EXPECT_EQ(first.storages.size(), 2u); // Memory follows what is read, not the batch.
  SampleBatch &third = **samples->next(3);
  EXPECT_EQ(&third, &first);
  EXPECT_THAT(third.wanted, ::testing::Each(0));
}

TEST(SampleSourceTest, badValuesAreTheBatchsAlone) {
  auto values = std::make_shared<NumberedValues>();
  values->bad = 1;
  auto samples = source(std::make_unique<NumberedReader>(values), 4, {}, 2);
  SampleBatch &first = **samples->next(2), &second = **samples->next(2);
  for (SampleBatch *batch : {&first, &second}) {
    std::ranges::fill(batch->wanted, uint8_t{1});
    samples->read(*batch);
  }
  for (int again = 0; again < 2; ++again)
    EXPECT_THAT(std::string(samples->await(first).message()), HasSubstr("'bad' holds no number"));
  EXPECT_TRUE(samples->await(second).isOk());
  EXPECT_TRUE(samples->await(**samples->next(2)).isOk());
}

/// A source that ends while it reads lets nobody down.
TEST(SampleSourceTest, endsWhileItReads) {
  auto values = std::make_shared<NumberedValues>();
  for (int i = 0; i < 100; ++i) {
    auto samples = source(std::make_unique<NumberedReader>(values), 4, {}, 2);
    SampleBatch &batch = **samples->next(2);
    std::ranges::fill(batch.wanted, uint8_t{1});
    samples->read(batch);
  }
}

TEST(DataIdentityTest, namesWhatDiffers) {
  DataIdentity before{.shards = {{"old/a.tar", 10}, {"old/b.tar", 20}}};
  DataIdentity moved{.shards = {{"new/a.tar", 10}, {"new/b.tar", 20}}};
  EXPECT_EQ(differenceOf(before, moved), "");
  DataIdentity now = moved;
  now.shards[1].bytes = 21;
  EXPECT_EQ(differenceOf(before, now), "shard 1 was 'old/b.tar' (20 bytes), and is 'new/b.tar' (21 bytes)");
  EXPECT_TRUE(beginAlike(before, now, 1));
  EXPECT_FALSE(beginAlike(before, now, 2));
  std::swap(now.shards[0], now.shards[1]);
  EXPECT_EQ(differenceOf(before, now), "shard 0 was 'old/a.tar' (10 bytes), and is 'new/b.tar' (21 bytes)");
  now = moved;
  now.shards.push_back({"new/c.tar", 30});
  EXPECT_EQ(differenceOf(before, now), "2 shards then, 3 shards now");
  EXPECT_TRUE(beginAlike(before, now, 2));
  now = moved;
  now.shuffled = true;
  EXPECT_EQ(differenceOf(before, now), "no --shuffle then, --shuffle now");
  EXPECT_EQ(differenceOf(before, {.synthetic = true}), "2 shards then, synthetic samples (no --data) now");
}

} // namespace
} // namespace maestro::data
