// One tar shard: its file, and an index of the arrays in it that reads headers only.
//
// Members are `<sample key>.<field>.npy`, or `.cls` and `.json` with one number in them. As in
// WebDataset the key is the path up to the first dot of the base name, and the members of a sample
// lie side by side. A hard or symbolic link is the member before it that it leads to. Everything in a shard is
// untrusted; errors name the shard, the member, the value and the limit.
#pragma once

#include "base/status.h"
#include "executor/data/npy.h"

#include <cstdint>
#include <memory>
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

/// An open shard, read by position. A shard packed by gzip, zstd, xz or bzip2 is unpacked once into an unnamed
/// temporary file (in $TMPDIR or /tmp), which goes when the shard is closed.
class ShardFile {
public:
  static Result<ShardFile> open(const std::string &path);
  /// Takes an open descriptor of an uncompressed tar (tests, fuzzing).
  static Result<ShardFile> fromDescriptor(int descriptor, std::string name);
  ShardFile(ShardFile &&other) noexcept;
  ShardFile &operator=(ShardFile &&other) noexcept;
  ~ShardFile();

  const std::string &name() const { return path; }
  int descriptor() const { return fd; }
  uint64_t bytes() const { return size; }      ///< Of the uncompressed tar.
  bool isUnpacked() const { return unpacked; } ///< It takes room in a temporary file.
  /// Fills `target` from `offset` on; fails when the file ends before.
  Status read(uint64_t offset, std::span<std::byte> target) const;

private:
  ShardFile(std::string path, int fd) : path(std::move(path)), fd(fd) {}
  Status measure();

  std::string path;
  int fd = -1;
  uint64_t size = 0;
  bool unpacked = false;
};

/// How an array's values are stored.
enum class ValueFormat : uint8_t { Npy, IntegerText, FloatText, BoolText };

/// One array of one sample, in 40 bytes and its dims.
struct IndexedArray {
  uint64_t offset = 0;    ///< Of the values in the tar.
  uint64_t firstDim = 0;  ///< ShardIndex::dims
  uint32_t field = 0;     ///< Index into the wanted fields.
  uint16_t textBytes = 0; ///< Length of a text format.
  ValueFormat format = ValueFormat::Npy;
  NpyElement element = NpyElement::I8;
  uint8_t rank = 0;
  bool fortranOrder = false;
};

/// Samples in file order.
struct ShardIndex {
  struct SampleEntry {
    uint64_t firstArray = 0; ///< Index into arrays; the next entry's firstArray ends it.
    uint64_t firstKeyByte = 0;
  };
  std::vector<SampleEntry> samples; ///< One more than there are: where the last one ends.
  std::vector<IndexedArray> arrays;
  std::vector<int64_t> dims;
  std::string keys;

  size_t sampleCount() const { return samples.empty() ? 0 : samples.size() - 1; }
  std::string_view key(size_t sample) const;
  std::span<const IndexedArray> arraysOf(size_t sample) const;
  Dims dimsOf(const IndexedArray &array) const;
  DType dtypeOf(const IndexedArray &array) const;
};

/// Reads the headers of a shard piece by piece, so that its first samples need not wait for its
/// last. Members of other fields are left alone; a sample that has none of the wanted fields still
/// counts, and one that lacks a field which is not optional is an error. The file and the fields
/// must outlive it.
class ShardIndexer {
public:
  ShardIndexer(const ShardFile &shard, std::span<const WantedField> fields);
  ShardIndexer(ShardIndexer &&) noexcept;
  ~ShardIndexer();

  /// Adds at least one sample, unless the shard ends before, and no more than a piece.
  Status advance();
  bool isComplete() const;
  const ShardIndex &index() const; ///< Of the samples so far.
  /// Fields of samples so far that were not asked for; the first hundred.
  const std::set<std::string, std::less<>> &unread() const;
  ShardIndex takeIndex() &&;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// The index of a whole shard.
Result<ShardIndex> indexShard(const ShardFile &shard, std::span<const WantedField> fields);

} // namespace maestro::data
