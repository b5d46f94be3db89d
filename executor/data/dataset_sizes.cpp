#include "executor/data/dataset_sizes.h"

#include "executor/data/batcher.h"
#include "executor/data/open_data.h"
#include "executor/data/shard_samples.h"
#include "executor/data/turns.h"
#include "executor/data/webdataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace maestro::data {
namespace {

/// Takes a sample into account; fields are in the order of `found`.
void note(const Sample &sample, std::vector<FieldFindings> &found) {
  for (size_t i = 0; i < found.size(); ++i) {
    const SampleField &field = sample.fields[i];
    FieldFindings &own = found[i];
    if (!field.present)
      continue;
    auto rank = static_cast<size_t>(field.dims.rank);
    if (own.samples++ == 0) {
      own.dtype = field.dtype;
      for (int64_t size : field.dims.shape())
        own.sizes.emplace_back(size, size);
    }
    own.sizes.resize(std::min(own.sizes.size(), rank));
    for (size_t d = 0; d < own.sizes.size(); ++d) {
      int64_t size = field.dims[static_cast<int>(d)];
      own.sizes[d] = {std::min(own.sizes[d].first, size), std::max(own.sizes[d].second, size)};
    }
  }
}

std::vector<FieldFindings> findingsOf(std::span<const FieldSpec> fields) {
  std::vector<FieldFindings> findings;
  for (const FieldSpec &field : fields)
    findings.push_back({field.name, 0, DType::F32, {}});
  return findings;
}

class SizesReader {
public:
  SizesReader(std::span<const std::string> shards, const std::vector<FieldSpec> &fields, const Batcher &batcher,
              const SizesLimit &limit)
      : shards(shards), batcher(batcher), limit(limit) {
    for (const FieldSpec &field : fields)
      wanted.push_back({field.name, field.optional || field.ownPositions});
    found.fields = findingsOf(fields);
  }

  Result<DatasetSizes> run() {
    found.among = shards.size();
    found.isWhole = true;
    uint64_t visits = std::min<uint64_t>(shards.size(), limit.shards);
    for (uint64_t visit = 0; visit < visits && found.samples < limit.samples; ++visit) {
      uint64_t left = limit.samples - found.samples, share = (left + visits - visit - 1) / (visits - visit);
      const std::string &path = shards[visit * shards.size() / visits];
      MAESTRO_ASSIGN(auto shard, ShardSamples::open(path, wanted, IndexStore()));
      bool isPacked = shard->file().isPacked();
      MAESTRO_TRY(addShard(*shard, isPacked ? left : share));
      ++found.shards;
      if (isPacked && found.samples > 0)
        break;
    }
    found.isWhole &= found.shards == shards.size();
    if (found.samples == 0)
      return noSamples(shards);
    return std::move(found);
  }

private:
  Status addShard(ShardSamples &shard, uint64_t most) {
    MAESTRO_ASSIGN(bool hasAll, shard.has(most - 1));
    uint64_t count = hasAll ? most : shard.count();
    for (uint64_t number = 0; number < count; ++number)
      MAESTRO_TRY(addSample(shard, number));
    found.isWhole &= shard.isWhole() && count == shard.count();
    unread.merge(shard.unread());
    found.unread.assign(unread.begin(), unread.end());
    return {};
  }

  /// As a run would see it, without its values.
  Status addSample(ShardSamples &shard, uint64_t number) {
    Sample sample;
    shard.describe(number, sample);
    size_t width = batcher.symbols().size();
    found.values.resize(found.values.size() + width);
    ++found.samples;
    note(sample, found.fields);
    return batcher.measure(sample, std::span(found.values).last(width));
  }

  std::span<const std::string> shards;
  const Batcher &batcher;
  SizesLimit limit;
  std::vector<WantedField> wanted;
  DatasetSizes found;
  std::set<std::string> unread;
};

/// Where all samples are of one shape.
Result<DatasetSizes> sizesOfFirst(const DataFiles &files, const Batcher &batcher) {
  DataRequest request;
  request.fields.assign(batcher.fields().begin(), batcher.fields().end());
  request.symbols.assign(batcher.symbols().begin(), batcher.symbols().end());
  MAESTRO_ASSIGN(std::unique_ptr<SampleReader> reader, openData(files, request));
  Sample sample;
  MAESTRO_TRY(reader->seek({}));
  MAESTRO_TRY(reader->read(sample));
  DatasetSizes found{std::vector<int64_t>(batcher.symbols().size()), 1, files.paths.size(), files.paths.size(), true};
  found.areAlike = true;
  found.fields = findingsOf(batcher.fields());
  note(sample, found.fields);
  MAESTRO_TRY(batcher.measure(sample, found.values));
  return found;
}

Result<DatasetSizes> sizesOf(const DataFiles &files, const std::vector<FieldSpec> &fields, const Batcher &batcher,
                             const SizesLimit &limit) {
  return files.kind == DataFiles::Kind::Shards ? SizesReader(files.paths, fields, batcher, limit).run()
                                               : sizesOfFirst(files, batcher);
}

/// What is known of a field in one more source.
void merge(FieldFindings &into, const FieldFindings &from) {
  if (from.samples == 0)
    return;
  if (into.samples == 0) {
    into = from;
    return;
  }
  into.samples += from.samples;
  into.sizes.resize(std::min(into.sizes.size(), from.sizes.size()));
  for (size_t d = 0; d < into.sizes.size(); ++d)
    into.sizes[d] = {std::min(into.sizes[d].first, from.sizes[d].first),
                     std::max(into.sizes[d].second, from.sizes[d].second)};
}

/// Samples in the order in which a run reads them: as many as a pass has, at most `most`.
DatasetSizes mix(std::span<const DatasetSizes> sources, const Turns &turns, size_t width, uint64_t most) {
  DatasetSizes found;
  found.fields = sources.front().fields;
  found.isWhole = found.areAlike = true;
  std::set<std::string> unread;
  for (const DatasetSizes &source : sources) {
    found.samples += source.samples;
    found.shards += source.shards;
    found.among += source.among;
    found.isWhole &= source.isWhole;
    found.areAlike &= source.areAlike && source.values == sources.front().values;
    unread.insert(source.unread.begin(), source.unread.end());
    for (size_t i = 0; i < found.fields.size() && &source != &sources.front(); ++i)
      merge(found.fields[i], source.fields[i]);
  }
  found.unread.assign(unread.begin(), unread.end());
  bool areCounted = found.isWhole && !sources.front().areAlike;
  uint64_t count = areCounted ? std::min(most, found.samples) : most;
  for (uint64_t sample = 0; sample < count; ++sample) {
    Turns::Turn turn = turns.of(sample);
    const std::vector<int64_t> &own = sources[turn.source].values;
    size_t at = turn.count % sources[turn.source].samples * width;
    found.values.insert(found.values.end(), own.begin() + static_cast<std::ptrdiff_t>(at),
                        own.begin() + static_cast<std::ptrdiff_t>(at + width));
  }
  return found;
}

std::string sizesText(const FieldFindings &field) {
  std::vector<std::string> sizes;
  for (auto [least, largest] : field.sizes)
    sizes.push_back(least == largest ? fmt::to_string(least) : fmt::format("{} to {}", least, largest));
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

} // namespace

std::string describeFields(const DatasetSizes &sizes) {
  size_t width = 0;
  for (const FieldFindings &field : sizes.fields)
    width = std::max(width, field.name.size());
  std::string text;
  for (const FieldFindings &field : sizes.fields) {
    text += fmt::format("  {:<{}}  {}", field.name, width,
                        field.samples ? fmt::format("{:<4}  {}", name(field.dtype), sizesText(field)) : "absent");
    if (field.samples > 0 && field.samples < sizes.samples)
      text += fmt::format("  in {} of {} samples", field.samples, sizes.samples);
    text += "\n";
  }
  if (!sizes.unread.empty())
    text += fmt::format("  not read: {}\n", fmt::join(sizes.unread, ", "));
  return text;
}

Result<DatasetSizes> readDatasetSizes(const DataFiles &files, const std::vector<SymbolSpec> &symbols,
                                      const std::vector<FieldSpec> &fields, const SizesLimit &limit) {
  MAESTRO_ASSIGN(std::unique_ptr<Batcher> batcher, Batcher::create(symbols, fields));
  if (files.mixture.empty())
    return sizesOf(files, fields, *batcher, limit);
  std::vector<double> weights;
  for (const DataFiles::Source &source : files.mixture)
    weights.push_back(source.weight);
  MAESTRO_ASSIGN(Turns turns, Turns::create(weights));
  double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<DatasetSizes> sources;
  auto path = files.paths.begin();
  for (const DataFiles::Source &source : files.mixture) {
    auto end = path + static_cast<std::ptrdiff_t>(source.paths);
    SizesLimit share{
        std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(limit.samples) * source.weight / sum)),
        std::max<uint64_t>(1, limit.shards / files.mixture.size())};
    MAESTRO_ASSIGN(DatasetSizes own, sizesOf({files.kind, {path, end}}, fields, *batcher, share));
    sources.push_back(std::move(own));
    path = end;
  }
  return mix(sources, turns, symbols.size(), limit.samples);
}

} // namespace maestro::data
