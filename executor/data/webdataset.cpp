#include "executor/data/webdataset.h"

#include "executor/data/permutation.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <sys/resource.h>

namespace maestro::data {
namespace {

/// Shards that stay open, with their indices, once they were read in file order: data of fewer
/// shards is opened and indexed once, however often it is repeated.
constexpr size_t kKeptShards = 64;

/// What a reader says of sample `number` of a shard, whose path it owns.
void describe(const std::shared_ptr<ShardSamples> &shard, uint64_t number, std::string_view path, Sample &sample) {
  shard->describe(number, sample);
  sample.shard = path;
  sample.values = shard;
  sample.number = number;
}

Status noSuchPosition(uint64_t sample, uint64_t count, std::string_view where) {
  return Status::invalidInput(fmt::format("the data position is sample {}, but {} has {}: this is "
                                          "not the data that the checkpoint was made with",
                                          sample, where, count));
}

/// Shuffled shards stay open, and the usual limit of 1024 files is soon reached.
void allowOpenFiles() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
    return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

/// File order.
class SequentialReader final : public SampleReader {
public:
  explicit SequentialReader(WebDatasetOptions options)
      : options(std::move(options)), shards(this->options.shards.size()) {}

  Status seek(const DataPosition &position) override {
    if (position.shard >= shards.size())
      return Status::invalidInput(
          fmt::format("the data position is shard {}, but there are {} (--data)", position.shard, shards.size()));
    current = position;
    MAESTRO_ASSIGN(bool isThere, hasCurrent());
    if (!isThere && current.sample > 0)
      return noSuchPosition(current.sample, shards[current.shard]->count(), options.shards[current.shard]);
    return isThere ? Status() : moveOn();
  }

  Status read(Sample &sample) override {
    uint64_t pass = current.pass;
    describe(shards[current.shard], current.sample, options.shards[current.shard], sample);
    sample.ordinal = current.ordinal++;
    ++current.sample;
    MAESTRO_ASSIGN(bool isThere, hasCurrent());
    if (!isThere)
      MAESTRO_TRY(moveOn());
    sample.endsPass = current.pass != pass;
    sample.next = current;
    return {};
  }

private:
  /// Moves on to the first sample of the next shard that has any, perhaps in the next pass.
  Status moveOn() {
    for (size_t tried = 0; tried < shards.size(); ++tried) {
      current.sample = 0;
      if (++current.shard == shards.size())
        current = {.pass = current.pass + 1};
      MAESTRO_ASSIGN(bool isThere, hasCurrent());
      if (isThere)
        return {};
    }
    return noSamples(options.shards);
  }

  Result<bool> hasCurrent() {
    if (!shards[current.shard])
      MAESTRO_TRY(open(current.shard));
    return shards[current.shard]->has(current.sample);
  }

  Status open(uint64_t number) {
    MAESTRO_ASSIGN(auto opened, ShardSamples::open(options.shards[number], options.fields, options.indexes));
    // What is unpacked takes disk space, and only the shard that is read is worth it; samples whose values are still to
    // be read keep theirs open.
    for (std::shared_ptr<ShardSamples> &other : shards)
      if (other && (other->file().isPacked() || kept >= kKeptShards))
        other.reset(), --kept;
    shards[number] = std::move(opened);
    ++kept;
    return {};
  }

  WebDatasetOptions options;
  std::vector<std::shared_ptr<ShardSamples>> shards; ///< Empty: not open.
  size_t kept = 0;                                   ///< How many are open.
  DataPosition current;
};

/// Shuffled: every shard is indexed and open.
class ShuffledReader final : public SampleReader {
public:
  explicit ShuffledReader(WebDatasetOptions options) : options(std::move(options)) {}

  Status open() {
    shards.resize(options.shards.size());
    // Processes that make indexes begin in different places, so that few wait for one.
    size_t begin = options.indexes.isMaking() ? std::random_device()() % shards.size() : 0;
    for (size_t i = 0; i < shards.size(); ++i) {
      size_t number = (begin + i) % shards.size();
      MAESTRO_ASSIGN(shards[number], ShardSamples::open(options.shards[number], options.fields, options.indexes));
      MAESTRO_TRY(shards[number]->complete());
    }
    for (const auto &shard : shards) {
      firstSample.push_back(order.size());
      order.resize(order.size() + shard->count());
    }
    return {};
  }

  Status seek(const DataPosition &position) override {
    if (order.empty())
      return noSamples(options.shards);
    if (position.ordinal >= order.size())
      return noSuchPosition(position.ordinal, order.size(), "the data");
    current = {.pass = position.pass, .ordinal = position.ordinal};
    data::shuffle(order, options.seed, current.pass);
    return {};
  }

  Status read(Sample &sample) override {
    uint64_t number = order[current.ordinal];
    auto after = std::upper_bound(firstSample.begin(), firstSample.end(), number);
    auto shard = static_cast<size_t>(after - firstSample.begin()) - 1;
    describe(shards[shard], number - firstSample[shard], options.shards[shard], sample);
    sample.ordinal = current.ordinal;
    sample.endsPass = ++current.ordinal == order.size();
    if (sample.endsPass) {
      current = {.pass = current.pass + 1};
      data::shuffle(order, options.seed, current.pass);
    }
    sample.next = current;
    return {};
  }

private:
  WebDatasetOptions options;
  std::vector<std::shared_ptr<ShardSamples>> shards;
  std::vector<uint64_t> firstSample; ///< Of each shard, in file order of the whole data set.
  std::vector<uint64_t> order;
  DataPosition current;
};

/// A shard, all of it in sight.
class ShardRows final : public RowFile {
public:
  ShardRows(std::string path, std::shared_ptr<const std::vector<WantedField>> fields,
            std::unique_ptr<ShardSamples> shard)
      : path(std::move(path)), fields(std::move(fields)), shard(std::move(shard)) {}

  uint64_t rows() const override { return shard->count(); }
  void describe(uint64_t row, Sample &sample) const override { shard->describe(row, sample); }
  const std::string &name() const override { return path; }
  Status read(uint64_t row, size_t field, std::span<std::byte> values) override {
    return shard->read(row, field, values);
  }

private:
  std::string path;
  std::shared_ptr<const std::vector<WantedField>> fields; ///< Which the shard refers to.
  std::unique_ptr<ShardSamples> shard;
};

} // namespace

Result<std::vector<std::shared_ptr<RowFile>>> openShardRows(std::span<const std::string> shards,
                                                            std::shared_ptr<const std::vector<WantedField>> fields,
                                                            const IndexStore &indexes) {
  allowOpenFiles();
  std::vector<std::shared_ptr<RowFile>> rows;
  for (const std::string &path : shards) {
    MAESTRO_ASSIGN(auto shard, ShardSamples::open(path, *fields, indexes));
    MAESTRO_TRY(shard->complete());
    rows.push_back(std::make_shared<ShardRows>(path, fields, std::move(shard)));
  }
  return rows;
}

Result<std::unique_ptr<SampleReader>> openWebDataset(WebDatasetOptions options) {
  if (options.shards.empty())
    return Status::invalidInput("no shards were named (--data)");
  if (!options.shuffle)
    return std::unique_ptr<SampleReader>(std::make_unique<SequentialReader>(std::move(options)));
  allowOpenFiles();
  auto reader = std::make_unique<ShuffledReader>(std::move(options));
  MAESTRO_TRY(reader->open());
  return std::unique_ptr<SampleReader>(std::move(reader));
}

Status noSamples(std::span<const std::string> shards) {
  return Status::invalidInput(fmt::format("no sample in {} shard(s), the first of which is '{}': "
                                          "members are named <sample key>.<field>.npy",
                                          shards.size(), shards.front()));
}

} // namespace maestro::data
