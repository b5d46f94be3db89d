#include "executor/data/webdataset.h"

#include "executor/data/permutation.h"
#include "executor/data/scalar_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <sys/resource.h>

namespace maestro::data {
namespace {

/// Shards that stay open, with their indices, once they were read in file order: data of fewer
/// shards is opened and indexed once, however often it is repeated.
constexpr size_t kKeptShards = 64;

/// A shard with its index.
struct OpenShard {
  ShardFile file;
  ShardIndex index;

  static Result<OpenShard> open(const std::string &path, std::span<const WantedField> fields) {
    MAESTRO_ASSIGN(ShardFile file, ShardFile::open(path));
    MAESTRO_ASSIGN(ShardIndex index, indexShard(file, fields));
    return OpenShard{std::move(file), std::move(index)};
  }
};

/// A shard that is indexed as far as reading has come, and a piece ahead.
struct GrowingShard {
  ShardFile file;
  ShardIndexer indexer;

  GrowingShard(ShardFile opened, std::span<const WantedField> fields)
      : file(std::move(opened)), indexer(file, fields) {}

  /// Whether it has a sample of this number.
  Result<bool> has(uint64_t sample) {
    while (sample >= indexer.index().sampleCount() && !indexer.isComplete())
      MAESTRO_TRY(indexer.advance());
    return sample < indexer.index().sampleCount();
  }
};

/// Reads the values of one sample into `sample`, which keeps its memory.
class SampleDecoder {
public:
  explicit SampleDecoder(size_t fieldCount) : fieldCount(fieldCount) {}

  Status decode(const ShardFile &file, const ShardIndex &index, size_t number, Sample &sample) {
    sample.key = index.key(number);
    sample.fields.resize(fieldCount);
    for (SampleField &field : sample.fields)
      field = {};
    layOut(index, number, sample);
    for (const IndexedArray &array : index.arraysOf(number))
      MAESTRO_TRY(readArray(file, array, sample.fields[array.field]));
    return {};
  }

private:
  static size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

  void layOut(const ShardIndex &index, size_t number, Sample &sample) {
    size_t total = 0;
    for (const IndexedArray &array : index.arraysOf(number)) {
      SampleField &field = sample.fields[array.field];
      field.present = true;
      field.dtype = index.dtypeOf(array);
      field.dims = index.dimsOf(array);
      total += padded(static_cast<size_t>(field.dims.elements()) * byteSize(field.dtype));
    }
    largest = std::max(largest, total);
    std::span<std::byte> storage = sample.storage.resize(total, largest);
    for (SampleField &field : sample.fields) {
      if (!field.present)
        continue;
      size_t bytes = static_cast<size_t>(field.dims.elements()) * byteSize(field.dtype);
      field.bytes = storage.first(bytes);
      storage = storage.subspan(padded(bytes));
    }
  }

  Status readArray(const ShardFile &file, const IndexedArray &array, const SampleField &field) {
    // The field's bytes lie in storage that this sample owns.
    std::span<std::byte> values(const_cast<std::byte *>(field.bytes.data()), field.bytes.size());
    if (array.format != ValueFormat::Npy)
      return readScalar(file, array, values);
    NpyHeader header{array.element, array.fortranOrder, field.dims, 0};
    bool isPlain = !array.fortranOrder && header.storedBytes() == values.size();
    std::span<std::byte> stored = isPlain ? values : scratch.resize(header.storedBytes());
    MAESTRO_TRY(file.read(array.offset, stored));
    if (!isPlain)
      decodeNpy(header, stored.data(), values.data());
    else if (field.dtype == DType::Bool)
      for (std::byte &value : values)
        value = std::byte{value != std::byte{0}};
    return {};
  }

  Status readScalar(const ShardFile &file, const IndexedArray &array, std::span<std::byte> values) {
    std::array<char, kMaxScalarTextBytes> text;
    std::span<char> used(text.data(), array.textBytes);
    MAESTRO_TRY(file.read(array.offset, std::as_writable_bytes(used)));
    MAESTRO_ASSIGN(ScalarText scalar, parseScalarText({used.data(), used.size()}));
    if (scalar.format != array.format)
      return Status::invalidInput(fmt::format("shard '{}' changed while it was read", file.name()));
    if (scalar.format == ValueFormat::FloatText)
      std::memcpy(values.data(), &scalar.real, 8);
    else // Little endian: a bool is the first byte.
      std::memcpy(values.data(), &scalar.integer, values.size());
    return {};
  }

  size_t fieldCount;
  ByteBuffer scratch;
  size_t largest = 0; ///< Bytes of the largest sample so far.
};

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
      : options(std::move(options)), decoder(this->options.fields.size()), shards(this->options.shards.size()) {}

  Status seek(const DataPosition &position) override {
    if (position.shard >= shards.size())
      return Status::invalidInput(
          fmt::format("the data position is shard {}, but there are {} (--data)", position.shard, shards.size()));
    current = position;
    MAESTRO_ASSIGN(bool isThere, hasCurrent());
    if (!isThere && current.sample > 0)
      return noSuchPosition(current.sample, shards[current.shard]->indexer.index().sampleCount(),
                            options.shards[current.shard]);
    return isThere ? Status() : moveOn();
  }

  Status read(Sample &sample) override {
    uint64_t pass = current.pass;
    const GrowingShard &shard = *shards[current.shard];
    MAESTRO_TRY(decoder.decode(shard.file, shard.indexer.index(), current.sample, sample));
    sample.shard = options.shards[current.shard];
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
    MAESTRO_ASSIGN(ShardFile file, ShardFile::open(options.shards[number]));
    // What is unpacked takes disk space, and only the shard that is read is worth it.
    for (std::unique_ptr<GrowingShard> &other : shards)
      if (other && (other->file.isUnpacked() || kept >= kKeptShards))
        other.reset(), --kept;
    shards[number] = std::make_unique<GrowingShard>(std::move(file), options.fields);
    ++kept;
    return {};
  }

  WebDatasetOptions options;
  SampleDecoder decoder;
  std::vector<std::unique_ptr<GrowingShard>> shards; ///< Empty: not open.
  size_t kept = 0;                                   ///< How many are open.
  DataPosition current;
};

/// Shuffled: every shard is indexed and open.
class ShuffledReader final : public SampleReader {
public:
  ShuffledReader(WebDatasetOptions options, std::vector<OpenShard> shards)
      : options(std::move(options)), shards(std::move(shards)), decoder(this->options.fields.size()) {
    for (const OpenShard &shard : this->shards)
      firstSample.push_back(order.size()), order.resize(order.size() + shard.index.sampleCount());
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
    MAESTRO_TRY(decoder.decode(shards[shard].file, shards[shard].index, number - firstSample[shard], sample));
    sample.shard = options.shards[shard];
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
  std::vector<OpenShard> shards;
  SampleDecoder decoder;
  std::vector<uint64_t> firstSample; ///< Of each shard, in file order of the whole data set.
  std::vector<uint64_t> order;
  DataPosition current;
};
} // namespace

Result<std::unique_ptr<SampleReader>> openWebDataset(WebDatasetOptions options) {
  if (options.shards.empty())
    return Status::invalidInput("no shards were named (--data)");
  if (!options.shuffle)
    return std::unique_ptr<SampleReader>(std::make_unique<SequentialReader>(std::move(options)));
  allowOpenFiles();
  std::vector<OpenShard> shards;
  for (const std::string &path : options.shards) {
    MAESTRO_ASSIGN(OpenShard shard, OpenShard::open(path, options.fields));
    shards.push_back(std::move(shard));
  }
  return std::unique_ptr<SampleReader>(std::make_unique<ShuffledReader>(std::move(options), std::move(shards)));
}

Status noSamples(std::span<const std::string> shards) {
  return Status::invalidInput(fmt::format("no sample in {} shard(s), the first of which is '{}': "
                                          "members are named <sample key>.<field>.npy",
                                          shards.size(), shards.front()));
}

} // namespace maestro::data
