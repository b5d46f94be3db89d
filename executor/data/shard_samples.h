// A shard's samples as a run sees them: the fields that are wanted, checked, sizes apart from values.
#pragma once

#include "base/status.h"
#include "executor/data/index_store.h"
#include "executor/data/sample.h"
#include "executor/data/shard.h"

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace maestro::data {

/// A field that is asked for.
struct WantedField {
  std::string name;
  bool optional = false; ///< Samples may lack it.
};

class ShardSamples final : public SampleValues {
public:
  /// With the index that `indexes` keeps, else one that grows while samples are asked for. The fields must outlive it.
  static Result<std::unique_ptr<ShardSamples>> open(const std::string &path, std::span<const WantedField> wanted,
                                                    const IndexStore &indexes);
  static Result<std::unique_ptr<ShardSamples>> open(ShardFile file, std::span<const WantedField> wanted,
                                                    std::optional<StoredIndex> kept);

  const ShardFile &file() const { return shard; }
  /// Whether there is a sample of this number. Reads headers as far as that takes, and checks what comes into sight:
  /// a sample that has none of the wanted fields counts, one that lacks a field which is not optional is an error.
  Result<bool> has(uint64_t number);
  /// Samples in sight; all where isWhole().
  uint64_t count() const { return index().sampleCount(); }
  bool isWhole() const { return !indexer; }
  /// Reads all headers, and checks all samples.
  Status complete();

  /// Key and fields of a sample in sight, in the order of those that are wanted.
  void describe(uint64_t number, Sample &sample);
  /// A packed shard is unpacked for the first.
  Status read(uint64_t number, size_t field, std::span<std::byte> values) override;

  /// Fields of the samples in sight that are not asked for; the first hundred.
  std::set<std::string> unread() const;

private:
  ShardSamples(ShardFile file, std::span<const WantedField> wanted) : shard(std::move(file)), wanted(wanted) {}
  const ShardIndex &index() const { return indexer ? indexer->index() : whole; }
  Status advance();
  Status check();
  Status checkSample(uint64_t number);
  Status lacks(uint64_t number, const WantedField &field) const;
  int wantedOf(const IndexedArray &array);
  Status readNpy(const IndexedArray &array, std::span<std::byte> values);
  Status readScalar(const IndexedArray &array, std::span<std::byte> values);
  Status differs() const;

  ShardFile shard;
  std::span<const WantedField> wanted;
  std::optional<ShardIndexer> indexer; ///< Until the index is whole.
  ShardIndex whole;
  std::string indexPath;          ///< Of the file that keeps it; empty: none does.
  std::vector<int> wantedOfField; ///< By ShardIndex::fields: index into `wanted`; -1: nobody asks.
  uint64_t checked = 0;           ///< Samples.
  std::vector<bool> seen;         ///< Scratch of checkSample().
  uint64_t reading = UINT64_MAX;  ///< The sample whose values were read last.
  ByteBuffer scratch;
};

} // namespace maestro::data
