// ShardIndexer: what lies where in a tar, from its headers.
#include "executor/data/shard.h"

#include "base/hash.h"
#include "executor/data/scalar_text.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <unistd.h>
#include <unordered_map>
#include <unordered_set>

namespace maestro::data {
namespace {

/// A piece of an index: so many samples, or as many as begin in so many bytes.
constexpr size_t kPieceSamples = 1024;
constexpr uint64_t kPieceBytes = 8 << 20;

/// A member's name in its parts; `field` is empty when it belongs to no sample.
struct MemberName {
  std::string_view key;
  std::string_view field;
  std::string_view extension; ///< "npy", "cls", "json"; empty: something that is not read.
};

MemberName splitName(std::string_view path) {
  size_t base = path.rfind('/');
  base = base == std::string_view::npos ? 0 : base + 1;
  size_t dot = path.find('.', base);
  // Hidden files, which some systems add to every archive, are no samples.
  if (dot == std::string_view::npos || dot == base || dot + 1 == path.size())
    return {};
  MemberName name{path.substr(0, dot), path.substr(dot + 1), {}};
  size_t last = name.field.rfind('.');
  std::string_view extension = last == std::string_view::npos ? name.field : name.field.substr(last + 1);
  if (extension == "npy" || extension == "cls" || extension == "json") {
    name.extension = extension;
    // `0001.cls` is a field by itself, named "cls".
    if (last != std::string_view::npos)
      name.field = name.field.substr(0, last);
  }
  return name;
}

/// A member as libarchive found it.
struct Member {
  std::string path;
  uint64_t offset = 0; ///< Of its bytes.
  uint64_t bytes = 0;
};

/// Steps through the headers of a tar.
class TarHeaders {
public:
  explicit TarHeaders(const ShardFile &shard) : shard(shard), reader(archive_read_new(), archive_read_free) {}

  Status open() {
    // libarchive moves the descriptor's offset; every other reader here reads by position.
    ::lseek(shard.descriptor(), 0, SEEK_SET);
    archive_read_support_format_tar(reader.get());
    // Few bytes at a time: what follows a header is mostly skipped.
    if (archive_read_open_fd(reader.get(), shard.descriptor(), 10240) != ARCHIVE_OK)
      return damaged();
    return {};
  }

  /// The next regular file; false at the end.
  Result<bool> next(Member &member) {
    for (;;) {
      archive_entry *entry = nullptr;
      int outcome = archive_read_next_header(reader.get(), &entry);
      if (outcome == ARCHIVE_EOF) {
        MAESTRO_TRY(checkEnd());
        return false;
      }
      if (outcome != ARCHIVE_OK && outcome != ARCHIVE_WARN)
        return damaged();
      auto dataStart = static_cast<uint64_t>(archive_filter_bytes(reader.get(), 0));
      MAESTRO_ASSIGN(bool isFile, take(entry, dataStart, member));
      if (isFile)
        return true;
    }
  }

  /// When there is nothing more to come.
  void forgetPlaces() { places = {}; }
  /// Where the members that were found end.
  uint64_t position() const { return lastEnd; }

private:
  Result<bool> take(archive_entry *entry, uint64_t dataStart, Member &member) {
    const char *path = archive_entry_pathname(entry);
    if (!path)
      path = archive_entry_pathname_utf8(entry);
    member.path = path ? path : "";
    MAESTRO_ASSIGN(std::string target, linkTarget(entry, member.path));
    if (!target.empty()) {
      lastEnd = std::max(lastEnd, dataStart);
      return follow(target, member);
    }
    bool isFile = archive_entry_filetype(entry) == AE_IFREG;
    la_int64_t bytes = isFile ? archive_entry_size(entry) : 0;
    member.offset = dataStart;
    member.bytes = static_cast<uint64_t>(bytes);
    if (bytes < 0 || dataStart > shard.bytes() || member.bytes > shard.bytes() - dataStart)
      return Status::invalidInput(
          fmt::format("shard '{}' is cut off: member '{}' has {} bytes from byte {} on, the shard {}", shard.name(),
                      member.path, bytes, dataStart, shard.bytes()));
    if (archive_entry_sparse_count(entry) > 0)
      return Status::invalidInput(fmt::format(
          "member '{}' of shard '{}' is stored as a sparse file; pack it without --sparse", member.path, shard.name()));
    lastEnd = std::max(lastEnd, (dataStart + member.bytes + 511) / 512 * 512);
    if (isFile)
      places.insert_or_assign(normal(member.path), Place{member.offset, member.bytes});
    return isFile;
  }

  static std::string normal(const std::filesystem::path &path) { return path.lexically_normal().string(); }

  /// The member that a link leads to; "" where the entry is none.
  Result<std::string> linkTarget(archive_entry *entry, const std::string &path) const {
    if (const char *target = archive_entry_hardlink(entry)) // By its name in the archive.
      return archive_entry_size(entry) > 0 ? std::string() : normal(target);
    const char *target = archive_entry_filetype(entry) == AE_IFLNK ? archive_entry_symlink(entry) : nullptr;
    return target ? normal(std::filesystem::path(path).parent_path() / target) : std::string();
  }

  Result<bool> follow(const std::string &target, Member &member) {
    auto found = places.find(target);
    if (found == places.end()) {
      if (splitName(member.path).extension.empty()) // Nothing that is read.
        return false;
      return Status::invalidInput(
          fmt::format("member '{}' of shard '{}' is a link to '{}', which is no member before it; pack "
                      "the shard with tar --dereference",
                      member.path, shard.name(), target));
    }
    member.offset = found->second.offset;
    member.bytes = found->second.bytes;
    places.insert_or_assign(normal(member.path), Place(found->second));
    return true;
  }

  /// A tar ends with blocks of zeros. Without one it was cut off where a member ended.
  Status checkEnd() const {
    std::array<std::byte, 512> block;
    if (lastEnd + block.size() <= shard.bytes()) {
      MAESTRO_TRY(shard.read(lastEnd, block));
      if (std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; }))
        return {};
    }
    return Status::invalidInput(
        fmt::format("shard '{}' is cut off: no end-of-archive block follows its last member, which "
                    "ends at byte {}; write it again and close it",
                    shard.name(), lastEnd));
  }

  Status damaged() const {
    const char *why = archive_error_string(reader.get());
    return Status::invalidInput(
        fmt::format("shard '{}' is not a whole tar file: {}", shard.name(), why ? why : "damaged header"));
  }

  struct Place {
    uint64_t offset, bytes;
  };
  const ShardFile &shard;
  std::unique_ptr<archive, int (*)(archive *)> reader;
  std::unordered_map<std::string, Place> places; ///< Of the members so far, by their names: links lead there.
  uint64_t lastEnd = 0;
};

/// Room for the longest beginning of an npy file that is looked at.
using NpyHead = std::array<std::byte, 12 + kMaxNpyHeaderBytes>;

/// What the header of an npy file of `bytes` bytes needs, in `room`.
Result<std::span<const std::byte>> readNpyHead(const ShardFile &shard, uint64_t offset, uint64_t bytes, NpyHead &room) {
  // Headers are 128 bytes but for the largest; the rest is read when it is needed.
  std::span<std::byte> head(room.data(), std::min<uint64_t>(bytes, 128));
  MAESTRO_TRY(shard.read(offset, head));
  Result<uint64_t> needed = npyHeaderBytes(head);
  if (needed && *needed > head.size()) {
    head = {room.data(), std::min(bytes, *needed)};
    MAESTRO_TRY(shard.read(offset, head));
  }
  return std::span<const std::byte>(head);
}

using ScalarRoom = std::array<char, kMaxScalarTextBytes>;

/// A member's text, in `room`; empty where it is longer than one number.
Result<std::string_view> readScalar(const ShardFile &shard, uint64_t offset, uint64_t bytes, ScalarRoom &room) {
  std::span<char> used(room.data(), bytes <= room.size() ? bytes : 0);
  MAESTRO_TRY(shard.read(offset, std::as_writable_bytes(used)));
  return std::string_view(used.data(), used.size());
}

} // namespace

Status describeDamage(const ShardFile &shard, const ShardIndex &index, const IndexedArray &array) {
  auto bytes = static_cast<uint64_t>(index.dimsOf(array)[0]);
  Status why;
  if (array.format == ValueFormat::DamagedNpy) {
    NpyHead room;
    MAESTRO_ASSIGN(std::span<const std::byte> head, readNpyHead(shard, array.offset, bytes, room));
    why = parseNpyHeader(head, bytes).takeStatus();
  } else if (bytes > kMaxScalarTextBytes) {
    why = Status::invalidInput(fmt::format("{} bytes are more than one number has (limit {}); store arrays as .npy",
                                           bytes, kMaxScalarTextBytes));
  } else {
    ScalarRoom room;
    MAESTRO_ASSIGN(std::string_view text, readScalar(shard, array.offset, bytes, room));
    why = parseScalarText(text).takeStatus();
  }
  return why.isOk() ? Status::invalidInput("it is not what the index of the shard says") : std::move(why);
}

/// Builds the index member by member. The last entry of index.samples is the sample being read: it
/// ends the one before, and becomes the end of all when the shard ends.
struct ShardIndexer::State {
  explicit State(const ShardFile &shard) : shard(shard), headers(shard) {}

  Status advance() {
    if (!isOpen)
      MAESTRO_TRY(headers.open());
    isOpen = true;
    size_t before = index.sampleCount();
    uint64_t start = headers.position();
    while (!isComplete) {
      size_t added = index.sampleCount() - before;
      if (added >= kPieceSamples || (added > 0 && headers.position() - start >= kPieceBytes))
        break;
      MAESTRO_TRY(step());
    }
    return {};
  }

  /// Takes in one member, or the end.
  Status step() {
    MAESTRO_ASSIGN(bool found, headers.next(member));
    if (!found) {
      index.samples.push_back({index.arrays.size(), index.keys.size()});
      isComplete = true;
      headers.forgetPlaces();
      return {};
    }
    MemberName name = splitName(member.path);
    if (name.field.empty())
      return {};
    if (index.samples.empty() || name.key != currentKey)
      MAESTRO_TRY(beginSample(name.key));
    return add(name);
  }

  Status add(const MemberName &name) {
    IndexedArray array{.firstDim = index.dims.size(), .field = numberOf(name.field), .format = ValueFormat::Other};
    if (!name.extension.empty())
      MAESTRO_TRY(name.extension == "npy" ? addNpy(array) : addScalar(array));
    index.arrays.push_back(array);
    return {};
  }

  uint32_t numberOf(std::string_view field) {
    auto [entry, isNew] = fieldNumbers.try_emplace(std::string(field), static_cast<uint32_t>(index.fields.size()));
    if (isNew)
      index.fields.emplace_back(field);
    return entry->second;
  }

  Status addNpy(IndexedArray &array) {
    NpyHead room;
    MAESTRO_ASSIGN(std::span<const std::byte> head, readNpyHead(shard, member.offset, member.bytes, room));
    Result<NpyHeader> header = parseNpyHeader(head, member.bytes);
    if (!header) {
      markDamaged(array, ValueFormat::DamagedNpy);
      return {};
    }
    head = head.first(header->dataOffset);
    array.format = ValueFormat::Npy;
    array.offset = member.offset + header->dataOffset;
    array.headerBytes = static_cast<uint16_t>(header->dataOffset);
    array.headerHash = npyHeaderHash(head);
    array.element = header->element;
    array.rank = static_cast<uint8_t>(header->dims.rank);
    array.fortranOrder = header->fortranOrder;
    for (int64_t size : header->dims.shape())
      index.dims.push_back(size);
    return {};
  }

  Status addScalar(IndexedArray &array) {
    ScalarRoom room;
    MAESTRO_ASSIGN(std::string_view text, readScalar(shard, member.offset, member.bytes, room));
    Result<ScalarText> scalar = parseScalarText(text);
    if (!scalar || member.bytes > room.size()) {
      markDamaged(array, ValueFormat::DamagedText);
      return {};
    }
    array.offset = member.offset;
    array.textBytes = static_cast<uint8_t>(member.bytes);
    array.format = scalar->format;
    return {};
  }

  /// Whoever asks for it is told why.
  void markDamaged(IndexedArray &array, ValueFormat format) {
    array.format = format;
    array.offset = member.offset;
    array.rank = 1;
    index.dims.push_back(static_cast<int64_t>(member.bytes));
  }

  Status beginSample(std::string_view key) {
    if (!knownKeys.emplace(key).second)
      return Status::invalidInput(
          fmt::format("the members of sample '{}' of shard '{}' do not lie side by side; pack the "
                      "shard with tar --sort=name",
                      key, shard.name()));
    currentKey = key;
    index.samples.push_back({index.arrays.size(), index.keys.size()});
    index.keys += key;
    return {};
  }

  const ShardFile &shard;
  TarHeaders headers;
  ShardIndex index;
  Member member;
  bool isOpen = false;
  bool isComplete = false;
  std::string currentKey;
  std::unordered_map<std::string, uint32_t> fieldNumbers; ///< Index into index.fields, by name.
  std::unordered_set<std::string> knownKeys;
};

std::string_view ShardIndex::key(size_t sample) const {
  uint64_t first = samples[sample].firstKeyByte, end = samples[sample + 1].firstKeyByte;
  return std::string_view(keys).substr(first, end - first);
}

std::span<const IndexedArray> ShardIndex::arraysOf(size_t sample) const {
  uint64_t first = samples[sample].firstArray, end = samples[sample + 1].firstArray;
  return {arrays.data() + first, end - first};
}

Dims ShardIndex::dimsOf(const IndexedArray &array) const {
  Dims result;
  for (uint8_t d = 0; d < array.rank; ++d)
    result.append(dims[array.firstDim + d]);
  return result;
}

DType ShardIndex::dtypeOf(const IndexedArray &array) const {
  switch (array.format) {
  case ValueFormat::Npy:
    return decodedType(array.element);
  case ValueFormat::IntegerText:
    return DType::I64;
  case ValueFormat::FloatText:
    return DType::F64;
  case ValueFormat::BoolText:
    return DType::Bool;
  default:
    return DType::I64;
  }
}

uint32_t npyHeaderHash(std::span<const std::byte> header) {
  return static_cast<uint32_t>(hashBytes({reinterpret_cast<const uint8_t *>(header.data()), header.size()}));
}

ShardIndexer::ShardIndexer(const ShardFile &shard) : state(std::make_unique<State>(shard)) {}
ShardIndexer::ShardIndexer(ShardIndexer &&) noexcept = default;
ShardIndexer::~ShardIndexer() = default;

Status ShardIndexer::advance() { return state->advance(); }
bool ShardIndexer::isComplete() const { return state->isComplete; }
const ShardIndex &ShardIndexer::index() const { return state->index; }
ShardIndex ShardIndexer::takeIndex() && { return std::move(state->index); }

Result<ShardIndex> indexShard(const ShardFile &shard) {
  ShardIndexer indexer(shard);
  while (!indexer.isComplete())
    MAESTRO_TRY(indexer.advance());
  return std::move(indexer).takeIndex();
}

} // namespace maestro::data
