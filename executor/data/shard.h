// One tar shard: its file, and an index of the arrays in it that reads headers only.
//
// Members are `<sample key>.<field>.npy`, or `.cls` and `.json` with one number in them. As in
// WebDataset the key is the path up to the first dot of the base name, and the members of a sample
// lie side by side. A hard or symbolic link is the member before it that it leads to. Everything in a shard is
// untrusted; errors name the shard, the sample or member, the value and the limit.
#pragma once

#include "base/status.h"
#include "executor/data/npy.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace maestro::data {

/// A state of a shard's file: an index is of one of them.
struct ShardStamp {
  uint64_t bytes = 0;
  int64_t modifiedNs = 0; ///< Since 1970.
  uint64_t endsHash = 0;  ///< Of the first and the last 512 bytes: some file systems know no time of modification.
  bool operator==(const ShardStamp &) const = default;
};

/// A shard's open file. One that is packed by gzip, zstd, xz or bzip2 can be read by position once it is unpacked,
/// whole, into an unnamed temporary file (in $TMPDIR or /tmp), which goes when the shard is closed.
class ShardFile {
public:
  static Result<ShardFile> open(const std::string &path);
  ShardFile(ShardFile &&other) noexcept;
  ShardFile &operator=(ShardFile &&other) noexcept;
  ~ShardFile();

  const std::string &name() const { return path; }
  bool isPacked() const { return packing != nullptr; }
  Result<ShardStamp> stamp() const;
  /// Once, before what follows; nothing to do where the shard is not packed.
  Status unpack();

  int descriptor() const { return unpackedFd >= 0 ? unpackedFd : fd; }
  uint64_t bytes() const { return tarBytes; } ///< Of the tar.
  /// Fills `first`, then `second`, from `offset` on; fails when the file ends before.
  Status read(uint64_t offset, std::span<std::byte> first, std::span<std::byte> second = {}) const;
  /// Fails where the file is no longer what it was when it was opened; names the index that is of it, if any is kept.
  Status checkUnchanged(const std::string &index = "") const;

private:
  struct Packing;
  ShardFile(std::string path, int fd) : path(std::move(path)), fd(fd) {}
  static const Packing *packingOf(int fd);
  Status measure();

  std::string path;
  int fd = -1, unpackedFd = -1;
  uint64_t fileBytes = 0, tarBytes = 0;
  int64_t modifiedNs = 0;
  const Packing *packing = nullptr;
};

/// How a member's values are stored. Of the last three nothing can be read: they are no .npy, .cls or .json, or not
/// what such a file holds.
enum class ValueFormat : uint8_t { Npy, IntegerText, FloatText, BoolText, Other, DamagedNpy, DamagedText };
inline bool isReadable(ValueFormat format) { return format < ValueFormat::Other; }

/// One member of a sample, in 32 bytes and its dims. A damaged one has one dim, its bytes.
struct IndexedArray {
  uint64_t offset = 0;     ///< Of the values in the tar; of a damaged member.
  uint64_t firstDim = 0;   ///< ShardIndex::dims
  uint32_t field = 0;      ///< ShardIndex::fields
  uint32_t headerHash = 0; ///< Npy: of the header, which lies before the values.
  uint16_t headerBytes = 0;
  uint8_t textBytes = 0; ///< Length of a text format.
  ValueFormat format = ValueFormat::Npy;
  NpyElement element = NpyElement::I8;
  uint8_t rank = 0;
  bool fortranOrder = false;
};

/// What a shard holds, whoever asks: samples in file order.
struct ShardIndex {
  struct SampleEntry {
    uint64_t firstArray = 0; ///< Index into arrays; the next entry's firstArray ends it.
    uint64_t firstKeyByte = 0;
  };
  std::vector<std::string> fields;  ///< Names; of members that are not read with their extension.
  std::vector<SampleEntry> samples; ///< One more than there are: where the last one ends.
  std::vector<IndexedArray> arrays;
  std::vector<int64_t> dims;
  std::string keys;

  size_t sampleCount() const { return samples.empty() ? 0 : samples.size() - 1; }
  std::string_view key(size_t sample) const;
  std::span<const IndexedArray> arraysOf(size_t sample) const;
  Dims dimsOf(const IndexedArray &array) const;
  DType dtypeOf(const IndexedArray &array) const; ///< Of a readable one.
};

/// Reads the headers of a shard piece by piece, so that its first samples need not wait for its last. The file, which
/// must be unpacked, must outlive it.
class ShardIndexer {
public:
  explicit ShardIndexer(const ShardFile &shard);
  ShardIndexer(ShardIndexer &&) noexcept;
  ~ShardIndexer();

  /// Adds at least one sample, unless the shard ends before, and no more than a piece.
  Status advance();
  bool isComplete() const;
  const ShardIndex &index() const; ///< Of the samples so far.
  ShardIndex takeIndex() &&;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// The index of a whole shard.
Result<ShardIndex> indexShard(const ShardFile &shard);

/// IndexedArray::headerHash of a header.
uint32_t npyHeaderHash(std::span<const std::byte> header);

/// What is wrong with a damaged member.
Status describeDamage(const ShardFile &shard, const ShardIndex &index, const IndexedArray &array);

} // namespace maestro::data
