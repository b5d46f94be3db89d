// ShardIndexer: what lies where in a tar, from its headers.
#include "executor/data/shard.h"

#include "base/nearest.h"
#include "executor/data/scalar_text.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
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

} // namespace

/// Builds the index member by member. The last entry of index.samples is the sample being read: it
/// ends the one before, and becomes the end of all when the shard ends.
struct ShardIndexer::State {
  State(const ShardFile &shard, std::span<const WantedField> wanted)
      : shard(shard), wanted(wanted), headers(shard), seen(wanted.size()) {}

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
      MAESTRO_TRY(endSample());
      index.samples.push_back({index.arrays.size(), index.keys.size()});
      isComplete = true;
      headers.forgetPlaces();
      return {};
    }
    MemberName name = splitName(member.path);
    if (name.field.empty())
      return {};
    if (!inSample || name.key != currentKey)
      MAESTRO_TRY(beginSample(name.key));
    if (Status status = add(name); !status.isOk())
      return std::move(status).withContext(fmt::format("member '{}' of shard '{}'", member.path, shard.name()));
    return {};
  }

  Status add(const MemberName &name) {
    auto field = std::find_if(wanted.begin(), wanted.end(), [&](const WantedField &w) { return w.name == name.field; });
    if (field == wanted.end() || name.extension.empty()) {
      others.emplace(name.field);
      if (constexpr size_t kMaxUnread = 100; unread.size() < kMaxUnread)
        unread.emplace(name.field);
      return {};
    }
    auto number = static_cast<size_t>(field - wanted.begin());
    if (seen[number])
      return Status::invalidInput(fmt::format("field '{}' of this sample appears twice", name.field));
    seen[number] = true;
    IndexedArray array{.firstDim = index.dims.size(), .field = static_cast<uint32_t>(number)};
    MAESTRO_TRY(name.extension == "npy" ? addNpy(array) : addScalar(array));
    index.arrays.push_back(array);
    return {};
  }

  Status addNpy(IndexedArray &array) {
    std::array<std::byte, 12 + kMaxNpyHeaderBytes> prefix;
    // Headers are 128 bytes but for the largest; the rest is read when it is needed.
    std::span<std::byte> head(prefix.data(), std::min<uint64_t>(member.bytes, 128));
    MAESTRO_TRY(shard.read(member.offset, head));
    MAESTRO_ASSIGN(uint64_t headerBytes, npyHeaderBytes(head));
    if (headerBytes > head.size()) {
      head = {prefix.data(), std::min(member.bytes, headerBytes)};
      MAESTRO_TRY(shard.read(member.offset, head));
    }
    MAESTRO_ASSIGN(NpyHeader header, parseNpyHeader(head, member.bytes));
    array.offset = member.offset + header.dataOffset;
    array.element = header.element;
    array.rank = static_cast<uint8_t>(header.dims.rank);
    array.fortranOrder = header.fortranOrder;
    for (int64_t size : header.dims.shape())
      index.dims.push_back(size);
    return {};
  }

  Status addScalar(IndexedArray &array) {
    std::array<char, kMaxScalarTextBytes> text;
    if (member.bytes > text.size())
      return Status::invalidInput(fmt::format("{} bytes are more than one number has (limit {}); store arrays as .npy",
                                              member.bytes, text.size()));
    std::span<char> used(text.data(), member.bytes);
    MAESTRO_TRY(shard.read(member.offset, std::as_writable_bytes(used)));
    MAESTRO_ASSIGN(ScalarText scalar, parseScalarText({used.data(), used.size()}));
    array.offset = member.offset;
    array.textBytes = static_cast<uint16_t>(member.bytes);
    array.format = scalar.format;
    return {};
  }

  Status beginSample(std::string_view key) {
    MAESTRO_TRY(endSample());
    if (!knownKeys.emplace(key).second)
      return Status::invalidInput(
          fmt::format("the members of sample '{}' of shard '{}' do not lie side by side; pack the "
                      "shard with tar --sort=name",
                      key, shard.name()));
    inSample = true;
    currentKey = key;
    std::fill(seen.begin(), seen.end(), false);
    others.clear();
    index.samples.push_back({index.arrays.size(), index.keys.size()});
    index.keys += key;
    return {};
  }

  /// Checks that the sample which ends here has what it must.
  Status endSample() {
    for (size_t i = 0; inSample && i < wanted.size(); ++i)
      if (!seen[i] && !wanted[i].optional)
        return Status::invalidInput(fmt::format("sample '{}' of shard '{}' lacks field '{}'{}{}", currentKey,
                                                shard.name(), wanted[i].name, present(), hint(wanted[i].name)));
    return {};
  }

  std::string present() const {
    std::string names;
    for (size_t i = 0; i < wanted.size(); ++i)
      if (seen[i])
        names += (names.empty() ? "" : ", ") + wanted[i].name;
    for (const std::string &other : others)
      names += (names.empty() ? "" : ", ") + other;
    return names.empty() ? "" : "; it has: " + names.substr(0, 300);
  }

  std::string hint(const std::string &name) const {
    for (const std::string &other : others)
      if (other.starts_with(name + "."))
        return fmt::format("; '{}' is not read: store it as {}.npy", other, name);
    return didYouMean(name, std::vector<std::string>(others.begin(), others.end()));
  }

  const ShardFile &shard;
  std::span<const WantedField> wanted;
  TarHeaders headers;
  ShardIndex index;
  Member member;
  bool isOpen = false;
  bool isComplete = false;
  bool inSample = false;
  std::string currentKey;
  std::vector<bool> seen;                    ///< Wanted fields of the current sample …
  std::set<std::string, std::less<>> others; ///< … and what else it has.
  std::set<std::string, std::less<>> unread; ///< The same of all samples.
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
  }
  return DType::I64;
}

ShardIndexer::ShardIndexer(const ShardFile &shard, std::span<const WantedField> fields)
    : state(std::make_unique<State>(shard, fields)) {}
ShardIndexer::ShardIndexer(ShardIndexer &&) noexcept = default;
ShardIndexer::~ShardIndexer() = default;

Status ShardIndexer::advance() { return state->advance(); }
bool ShardIndexer::isComplete() const { return state->isComplete; }
const ShardIndex &ShardIndexer::index() const { return state->index; }
const std::set<std::string, std::less<>> &ShardIndexer::unread() const { return state->unread; }
ShardIndex ShardIndexer::takeIndex() && { return std::move(state->index); }

Result<ShardIndex> indexShard(const ShardFile &shard, std::span<const WantedField> fields) {
  ShardIndexer indexer(shard, fields);
  while (!indexer.isComplete())
    MAESTRO_TRY(indexer.advance());
  return std::move(indexer).takeIndex();
}

} // namespace maestro::data
