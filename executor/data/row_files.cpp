#include "executor/data/row_files.h"

#include "base/system_failure.h"
#include "executor/data/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace maestro::data {
namespace {

/// A regular file, read by position. Not mapped: one that shrinks while it is read must not end the process.
class OpenFile {
public:
  static Result<OpenFile> open(const std::string &path) {
    OpenFile file(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status {};
    if (file.fd < 0 || ::fstat(file.fd, &status) != 0)
      return Status::invalidInput(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
    if (!S_ISREG(status.st_mode))
      return Status::invalidInput(fmt::format("'{}' is not a regular file", path));
    file.size = static_cast<uint64_t>(status.st_size);
    return file;
  }
  OpenFile(OpenFile &&other) noexcept
      : path(std::move(other.path)), fd(std::exchange(other.fd, -1)), size(other.size) {}
  OpenFile &operator=(OpenFile &&) = delete;
  ~OpenFile() {
    if (fd >= 0)
      ::close(fd);
  }

  Status read(uint64_t offset, std::span<std::byte> target) const {
    while (!target.empty()) {
      ssize_t count = ::pread(fd, target.data(), target.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR)
        continue;
      if (count < 0)
        return systemFailure("read", path, errno);
      if (count == 0)
        return Status::invalidInput(
            fmt::format("'{}' ends at byte {}, inside a sample: it changed while it was read", path, offset));
      offset += static_cast<uint64_t>(count);
      target = target.subspan(static_cast<size_t>(count));
    }
    return {};
  }
  template <typename T> Result<T> number(uint64_t offset) const {
    T value{};
    MAESTRO_TRY(read(offset, std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }

  const std::string &name() const { return path; }
  uint64_t bytes() const { return size; }

private:
  OpenFile(std::string path, int fd) : path(std::move(path)), fd(fd) {}
  std::string path;
  int fd;
  uint64_t size = 0;
};

/// decodeNpy() of a dense row; of tokens in 16 bits, as most are, at the speed of memory.
void decodeRow(const NpyHeader &header, const std::byte *stored, std::byte *values) {
  if (header.element == NpyElement::U2) {
    auto count = static_cast<size_t>(header.dims.elements());
    for (size_t i = 0; i < count; ++i) {
      uint16_t from;
      std::memcpy(&from, stored + 2 * i, sizeof from);
      int32_t to = from;
      std::memcpy(values + 4 * i, &to, sizeof to);
    }
  } else if (header.storedBytes() == header.decodedBytes() && decodedType(header.element) != DType::Bool) {
    std::memcpy(values, stored, header.storedBytes());
  } else {
    decodeNpy(header, stored, values);
  }
}

/// How a file's tokens are stored.
struct TokenType {
  NpyElement element = NpyElement::U2;
  uint64_t begin = 0; ///< Of the first, in bytes.
};

/// llm.c's header: 256 numbers, of which the third counts the tokens.
Result<std::optional<TokenType>> readHeader(const OpenFile &file) {
  constexpr uint64_t kHeaderBytes = 1024;
  constexpr int32_t kMagic = 20240520, kVersion = 1;
  if (file.bytes() < kHeaderBytes)
    return std::optional<TokenType>();
  MAESTRO_ASSIGN(int32_t magic, file.number<int32_t>(0));
  MAESTRO_ASSIGN(int32_t version, file.number<int32_t>(4));
  bool isKnown = magic == kMagic && version == kVersion;
  return isKnown ? std::optional(TokenType{NpyElement::U2, kHeaderBytes}) : std::nullopt;
}

/// Without a header tokens have 16 bits. Of numbers of 32 or 64, small as tokens are, every second or three of four
/// such parts are zeros: what is read then would be nothing but padding and the tokens between.
Status refuseWider(const OpenFile &file) {
  constexpr size_t kLooked = 1024, kFewest = 64;
  std::array<uint16_t, kLooked> parts{};
  size_t count = std::min<uint64_t>(kLooked, file.bytes() / sizeof(uint16_t));
  MAESTRO_TRY(file.read(0, std::as_writable_bytes(std::span(parts).first(count))));
  for (size_t words : {4, 2}) {
    if (count < kFewest * words)
      continue;
    bool areZeros = true, isAll = true;
    for (size_t i = 0; i < count - count % words; ++i) {
      areZeros &= i % words == 0 || parts[i] == 0;
      isAll &= parts[i] == 0;
    }
    if (areZeros && !isAll)
      return Status::invalidInput(fmt::format(
          "'{0}' looks like tokens of {1} bits, and without an index beside it tokens have 16; write it as "
          "numpy.uint16, or give Megatron's index, which says the type ({2}.idx)",
          file.name(), 16 * words, file.name().substr(0, file.name().size() - std::string_view(".bin").size())));
  }
  return {};
}

/// Megatron's index: "MMIDIDX\0\0", version, then the code of the tokens' type.
Result<TokenType> readIndex(const std::string &path) {
  constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
  constexpr std::pair<uint8_t, NpyElement> kCodes[] = {{1, NpyElement::U1}, {2, NpyElement::I1}, {3, NpyElement::I2},
                                                       {4, NpyElement::I4}, {5, NpyElement::I8}, {8, NpyElement::U2}};
  MAESTRO_ASSIGN(OpenFile index, OpenFile::open(path));
  std::array<char, kMagic.size()> magic{};
  if (index.bytes() >= kMagic.size() + 9)
    MAESTRO_TRY(index.read(0, std::as_writable_bytes(std::span(magic))));
  if (std::string_view(magic.data(), magic.size()) != kMagic)
    return Status::invalidInput(
        fmt::format("'{}' is no index of tokens as Megatron writes them; remove it where the .bin beside it "
                    "is nanoGPT's",
                    path));
  MAESTRO_ASSIGN(uint64_t version, index.number<uint64_t>(kMagic.size()));
  MAESTRO_ASSIGN(uint8_t code, index.number<uint8_t>(kMagic.size() + 8));
  for (auto [known, element] : kCodes)
    if (version == 1 && known == code)
      return TokenType{element, 0};
  return Status::invalidInput(fmt::format(
      "'{}': version {} and type {} are not read; write tokens as integers, in version 1", path, version, code));
}

class TokenFile final : public RowFile {
public:
  TokenFile(OpenFile file, const TokenType &type, TokenFields own, size_t fieldCount)
      : file(std::move(file)), type(type), own(std::move(own)), fieldCount(fieldCount) {
    for (const TokenFields::Field &field : this->own.fields)
      ahead |= field.next;
    uint64_t tokens = (this->file.bytes() - type.begin) / storedByteSize(type.element);
    count = tokens > ahead ? (tokens - ahead) / static_cast<uint64_t>(this->own.length) : 0;
  }

  uint64_t rows() const override { return count; }
  const std::string &name() const override { return file.name(); }

  void describe(uint64_t number, Sample &sample) const override {
    setKey(number, sample);
    sample.fields.assign(fieldCount, {});
    for (const TokenFields::Field &field : own.fields)
      sample.fields[field.index] = {true, decodedType(type.element), headerOf().dims, {}};
  }

  Status read(uint64_t row, size_t field, std::span<std::byte> values) override {
    auto length = static_cast<uint64_t>(own.length);
    size_t each = storedByteSize(type.element);
    if (row != loaded) { // Fields share their tokens.
      loaded = UINT64_MAX;
      MAESTRO_TRY(file.read(type.begin + row * length * each, scratch.resize((length + ahead) * each)));
      loaded = row;
    }
    auto asked = std::ranges::find(own.fields, field, &TokenFields::Field::index);
    decodeRow(headerOf(), scratch.bytes().data() + (asked->next ? each : 0), values.data());
    return {};
  }

private:
  NpyHeader headerOf() const {
    NpyHeader header{type.element, false, {}, 0};
    header.dims.append(own.length);
    return header;
  }

  OpenFile file;
  TokenType type;
  TokenFields own;
  size_t fieldCount;
  bool ahead = false;                      ///< A sample reads one token more.
  uint64_t count = 0, loaded = UINT64_MAX; ///< Rows; the one in `scratch`.
  ByteBuffer scratch;
};

/// One field's array: samples × what each has.
struct FieldArray {
  OpenFile file;
  NpyHeader row; ///< Of one sample.
  uint64_t rows = 0;
};

Result<FieldArray> openArray(const std::string &path) {
  MAESTRO_ASSIGN(OpenFile file, OpenFile::open(path));
  std::array<std::byte, 12 + kMaxNpyHeaderBytes> prefix;
  std::span<std::byte> head(prefix.data(), std::min<uint64_t>(file.bytes(), prefix.size()));
  MAESTRO_TRY(file.read(0, head));
  auto parsed = parseNpyHeader(head, file.bytes());
  if (!parsed)
    return std::move(parsed).takeStatus().withContext(fmt::format("'{}'", path));
  if (parsed->dims.rank == 0 || parsed->fortranOrder)
    return Status::invalidInput(
        fmt::format("'{}' {}; store an array whose leading dim counts samples, in C order", path,
                    parsed->fortranOrder ? "is stored column by column" : "is a single number"));
  FieldArray array{std::move(file), *parsed, static_cast<uint64_t>(parsed->dims[0])};
  array.row.dims = {};
  for (int64_t size : parsed->dims.shape().subspan(1))
    array.row.dims.append(size);
  return array;
}

class ArrayFolder final : public RowFile {
public:
  explicit ArrayFolder(std::string folder) : folder(std::move(folder)) {}

  Status open(std::span<const FieldSpec> fields) {
    for (const FieldSpec &field : fields) {
      std::string path = folder + "/" + field.name + ".npy";
      std::error_code error;
      arrays.emplace_back();
      if (field.ownPositions || (field.optional && !std::filesystem::exists(path, error)))
        continue;
      MAESTRO_ASSIGN(FieldArray array, openArray(path));
      arrays.back().emplace(std::move(array));
      if (first.empty()) {
        first = path;
        count = arrays.back()->rows;
      } else if (arrays.back()->rows != count) {
        return Status::invalidInput(fmt::format("'{}' has {} samples, and '{}' {}; arrays of one folder have as many",
                                                path, arrays.back()->rows, first, count));
      }
    }
    return {};
  }

  uint64_t rows() const override { return count; }
  const std::string &name() const override { return folder; }

  void describe(uint64_t number, Sample &sample) const override {
    setKey(number, sample);
    sample.fields.assign(arrays.size(), {});
    for (size_t i = 0; i < arrays.size(); ++i)
      if (arrays[i])
        sample.fields[i] = {true, decodedType(arrays[i]->row.element), arrays[i]->row.dims, {}};
  }

  Status read(uint64_t row, size_t field, std::span<std::byte> values) override {
    const FieldArray &array = *arrays[field];
    uint64_t bytes = array.row.storedBytes();
    std::span<std::byte> stored = scratch.resize(bytes);
    MAESTRO_TRY(array.file.read(array.row.dataOffset + row * bytes, stored));
    decodeRow(array.row, stored.data(), values.data());
    return {};
  }

private:
  std::string folder, first;
  std::vector<std::optional<FieldArray>> arrays; ///< By field.
  uint64_t count = 0;
  ByteBuffer scratch;
};

/// Of one sequence of integers: [rows, positions], or [positions] where rows lead the graph's own.
bool isOfTokens(const FieldSpec &field) {
  return !isFloat(field.dtype) && field.dtype != DType::Bool && field.dims.size() == 2;
}

} // namespace

Result<TokenFields> tokenFields(std::span<const FieldSpec> fields, std::span<const SymbolSpec> symbols,
                                std::span<const std::string> next) {
  TokenFields found;
  std::string first;
  for (size_t i = 0; i < fields.size(); ++i) {
    const FieldSpec &field = fields[i];
    if (field.optional || field.ownPositions)
      continue;
    if (!isOfTokens(field))
      return Status::invalidInput(
          fmt::format("the plan reads the field '{}', which a file of tokens does not hold; give shards, or a "
                      "folder of .npy arrays",
                      field.name));
    const DimSpec &dim = field.dims.back();
    int64_t length = dim.isFixed() ? dim.size : symbols[static_cast<size_t>(dim.symbol)].sampleMax;
    if (!first.empty() && length != found.length)
      return Status::invalidInput(
          fmt::format("'{}' has {} tokens and '{}' {}; fields that a file of tokens feeds have as many", first,
                      found.length, field.name, length));
    if (first.empty())
      first = field.name;
    found.length = length;
    found.fields.push_back({i, std::ranges::find(next, field.name) != next.end()});
  }
  for (const std::string &name : next)
    if (std::ranges::none_of(found.fields,
                             [&](const TokenFields::Field &field) { return fields[field.index].name == name; }))
      return Status::invalidInput(fmt::format("--next-token {}: the plan reads no such field of tokens", name));
  if (found.length <= 0)
    return Status::invalidInput("the plan reads no tokens; give shards, or a folder of .npy arrays");
  return found;
}

Result<std::shared_ptr<RowFile>> openTokens(const std::string &path, const TokenFields &fields, size_t fieldCount) {
  std::string index = path.substr(0, path.rfind('.')) + ".idx";
  std::error_code error;
  MAESTRO_ASSIGN(OpenFile file, OpenFile::open(path));
  TokenType type;
  if (std::filesystem::exists(index, error)) {
    MAESTRO_ASSIGN(type, readIndex(index));
  } else {
    MAESTRO_ASSIGN(std::optional<TokenType> own, readHeader(file));
    if (!own)
      MAESTRO_TRY(refuseWider(file));
    type = own.value_or(TokenType());
  }
  auto tokens = std::make_unique<TokenFile>(std::move(file), type, fields, fieldCount);
  if (tokens->rows() == 0)
    return Status::invalidInput(fmt::format(
        "'{}' holds fewer than the {} tokens of a sample; plan with a smaller `max` of that dim", path, fields.length));
  return std::shared_ptr<RowFile>(std::move(tokens));
}

Result<std::shared_ptr<RowFile>> openArrays(const std::string &folder, std::span<const FieldSpec> fields) {
  auto arrays = std::make_unique<ArrayFolder>(folder);
  MAESTRO_TRY(arrays->open(fields));
  return std::shared_ptr<RowFile>(std::move(arrays));
}

} // namespace maestro::data
