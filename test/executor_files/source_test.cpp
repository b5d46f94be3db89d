#include "executor/data/data_identity.h"
#include "executor/data/source.h"

#include "executor/data/synthetic.h"
#include "executor/data/webdataset.h"
#include "test/allocations/allocations.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
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

std::unique_ptr<SampleSource> source(std::unique_ptr<SampleReader> reader, size_t queue, DataPosition start = {}) {
  auto made = SampleSource::create(std::move(reader), queue, start);
  EXPECT_TRUE(made.isOk());
  return *std::move(made);
}

TEST(SampleSourceTest, aPassEndsWithASmallerBatch) {
  for (size_t queue : {1u, 3u, 64u}) {
    auto samples = source(std::make_unique<CountingReader>(), queue);
    SampleBatch batch;
    std::vector<size_t> counts;
    std::vector<bool> ends;
    for (int i = 0; i < 6; ++i) {
      ASSERT_TRUE(samples->next(4, batch).isOk());
      counts.push_back(batch.count);
      ends.push_back(batch.endsPass);
    }
    EXPECT_THAT(counts, ::testing::ElementsAre(4, 4, 2, 4, 4, 2));
    EXPECT_THAT(ends, ::testing::ElementsAre(false, false, true, false, false, true));
    EXPECT_EQ(batch.next, (DataPosition{.pass = 2}));
  }
}

TEST(SampleSourceTest, startsWhereItIsTold) {
  auto samples = source(std::make_unique<CountingReader>(), 2, {.pass = 1, .ordinal = 7});
  SampleBatch batch;
  ASSERT_TRUE(samples->next(2, batch).isOk());
  EXPECT_EQ(batch.view()[0].ordinal, 7u);
  EXPECT_EQ(batch.next, (DataPosition{.pass = 1, .ordinal = 9}));
}

TEST(SampleSourceTest, aFailureComesAfterTheSamplesBeforeIt) {
  auto samples = source(std::make_unique<CountingReader>(5), 8);
  SampleBatch batch;
  ASSERT_TRUE(samples->next(5, batch).isOk());
  for (int again = 0; again < 2; ++again)
    EXPECT_THAT(std::string(samples->next(1, batch).message()), HasSubstr("'bad' is damaged"));
}

TEST(SampleSourceTest, readsNoFurtherAheadThanItMay) {
  std::atomic<uint64_t> reads{0};
  {
    auto samples = source(std::make_unique<CountingReader>(UINT64_MAX, &reads), 4);
    SampleBatch batch;
    ASSERT_TRUE(samples->next(3, batch).isOk());
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
    auto samples = source(isSynthetic ? *openSynthetic(synthetic) : *openWebDataset(options), 4);
    SampleBatch batch;
    for (int warm = 0; warm < 600; ++warm)
      ASSERT_TRUE(samples->next(5, batch).isOk());
    int64_t before = test::allocations();
    for (int step = 0; step < 300; ++step)
      ASSERT_TRUE(samples->next(5, batch).isOk());
    EXPECT_EQ(test::allocations() - before, 0) << (isSynthetic ? "synthetic" : "webdataset");
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
