#include "executor/data/npy.h"

#include "base/convert.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace maestro::data {
namespace {

struct ElementInfo {
  std::string_view code; ///< As in 'descr', without the byte order.
  NpyElement element;
  uint8_t storedBytes;
  DType decoded;
};
/// In the order of NpyElement.
constexpr ElementInfo kElements[] = {
    {"f2", NpyElement::F2, 2, DType::F16}, {"f4", NpyElement::F4, 4, DType::F32}, {"f8", NpyElement::F8, 8, DType::F64},
    {"i1", NpyElement::I1, 1, DType::I8},  {"i2", NpyElement::I2, 2, DType::I16}, {"i4", NpyElement::I4, 4, DType::I32},
    {"i8", NpyElement::I8, 8, DType::I64}, {"u1", NpyElement::U1, 1, DType::U8},  {"u2", NpyElement::U2, 2, DType::I32},
    {"u4", NpyElement::U4, 4, DType::I64}, {"b1", NpyElement::B1, 1, DType::Bool}};

const ElementInfo &info(NpyElement element) { return kElements[static_cast<size_t>(element)]; }

/// Reads the Python literal that a header is: {'descr': '<f4', 'fortran_order': False, 'shape':
/// (3,)}.
class HeaderParser {
public:
  explicit HeaderParser(std::string_view text) : rest(text) {}

  Status parse(NpyHeader &header) {
    if (!take('{'))
      return malformed("'{'");
    bool sawType = false, sawOrder = false, sawShape = false;
    while (!take('}')) {
      std::string_view key;
      if (!takeText(key) || !take(':'))
        return malformed("a key and ':'");
      if (key == "descr" && !sawType)
        MAESTRO_TRY(parseType(header));
      else if (key == "fortran_order" && !sawOrder)
        MAESTRO_TRY(parseOrder(header));
      else if (key == "shape" && !sawShape)
        MAESTRO_TRY(parseShape(header.dims));
      else
        return Status::invalidInput(fmt::format("npy header: key '{}' is unknown or repeated", key));
      (key == "descr" ? sawType : key == "shape" ? sawShape : sawOrder) = true;
      if (!take(',') && peek() != '}')
        return malformed("',' or '}'");
    }
    if (peek() != '\0')
      return malformed("nothing more");
    if (!sawType || !sawOrder || !sawShape)
      return Status::invalidInput("npy header: descr, fortran_order or shape is missing");
    return {};
  }

private:
  /// The next character that is no space; 0 at the end.
  char peek() {
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\n' || rest[0] == '\t'))
      rest.remove_prefix(1);
    return rest.empty() ? '\0' : rest[0];
  }
  bool take(char c) {
    if (peek() != c || c == '\0')
      return false;
    rest.remove_prefix(1);
    return true;
  }
  bool takeText(std::string_view &text) {
    char quote = peek();
    if (quote != '\'' && quote != '"')
      return false;
    size_t end = rest.find(quote, 1);
    if (end == std::string_view::npos)
      return false;
    text = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    return true;
  }
  bool takeWord(std::string_view word) {
    peek();
    if (!rest.starts_with(word))
      return false;
    rest.remove_prefix(word.size());
    return true;
  }

  Status parseType(NpyHeader &header) {
    std::string_view type;
    if (!takeText(type))
      return Status::invalidInput("npy header: the element type is a record or an object; save plain numbers");
    std::string_view code = type.size() > 1 ? type.substr(1) : std::string_view();
    for (const ElementInfo &known : kElements) {
      if (known.code != code)
        continue;
      if (type[0] == '>' && known.storedBytes > 1)
        return Status::invalidInput(
            fmt::format("npy element type '{}' is big-endian; save it with array.astype('<{}')", type, code));
      if (type[0] != '<' && type[0] != '|' && type[0] != '=' && type[0] != '>')
        break;
      header.element = known.element;
      return {};
    }
    return Status::invalidInput(
        fmt::format("npy element type '{}' is not supported; these are: f2 f4 f8 i1 i2 i4 i8 u1 u2 "
                    "u4 b1 (little-endian)",
                    type.substr(0, 40)));
  }

  Status parseOrder(NpyHeader &header) {
    if (takeWord("True"))
      header.fortranOrder = true;
    else if (takeWord("False"))
      header.fortranOrder = false;
    else
      return malformed("True or False");
    return {};
  }

  Status parseShape(Dims &dims) {
    if (!take('('))
      return malformed("'(' of the shape");
    while (!take(')')) {
      int64_t size = 0;
      if (!takeNumber(size))
        return malformed("a size from 0 to 2^63 - 1 in the shape");
      takeWord("L"); // Python 2 wrote long integers so.
      if (dims.rank == Dims::kMaxRank)
        return Status::invalidInput(
            fmt::format("npy array has more than {} dims, the most that is supported", Dims::kMaxRank));
      dims.append(size);
      if (!take(',') && peek() != ')')
        return malformed("',' or ')'");
    }
    return {};
  }

  bool takeNumber(int64_t &value) {
    if (peek() < '0' || peek() > '9')
      return false;
    while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9') {
      if (__builtin_mul_overflow(value, int64_t{10}, &value) ||
          __builtin_add_overflow(value, int64_t{rest[0] - '0'}, &value))
        return false;
      rest.remove_prefix(1);
    }
    return true;
  }

  Status malformed(std::string_view expected) {
    return Status::invalidInput(fmt::format("npy header is damaged: expected {} before '{}'", expected, printable()));
  }
  std::string printable() const {
    std::string text(rest.substr(0, 20));
    for (char &c : text)
      if (c < 0x20 || c > 0x7e)
        c = '?';
    return text;
  }

  std::string_view rest;
};

/// Bytes of `dims` elements; nothing when that overflows (dims after a 0 count, too: none may be
/// absurd).
std::optional<uint64_t> checkedBytes(const Dims &dims, uint64_t elementBytes) {
  int64_t product = static_cast<int64_t>(elementBytes);
  bool isEmpty = false;
  for (int64_t size : dims.shape()) {
    isEmpty |= size == 0;
    if (size != 0 && __builtin_mul_overflow(product, size, &product))
      return std::nullopt;
  }
  return isEmpty ? 0 : static_cast<uint64_t>(product);
}

uint32_t littleEndian(std::span<const std::byte> bytes) {
  uint32_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | std::to_integer<uint32_t>(bytes[i]);
  return value;
}

/// Calls visit(rowMajorIndex, columnMajorIndex) for each element.
template <typename Visit> void forEachTransposed(const Dims &dims, Visit visit) {
  std::array<int64_t, Dims::kMaxRank> at{}, strides{};
  int64_t stride = 1;
  for (int d = 0; d < dims.rank; ++d) {
    strides[static_cast<size_t>(d)] = stride;
    stride *= dims[d];
  }
  int64_t column = 0;
  for (int64_t row = 0, end = dims.elements(); row < end; ++row) {
    visit(static_cast<size_t>(row), static_cast<size_t>(column));
    for (int d = dims.rank - 1; d >= 0; --d) {
      auto i = static_cast<size_t>(d);
      column += strides[i];
      if (++at[i] < dims[d])
        break;
      column -= strides[i] * dims[d];
      at[i] = 0;
    }
  }
}

void decodeOne(NpyElement element, const std::byte *stored, std::byte *value) {
  if (element == NpyElement::U2) {
    auto wide = static_cast<int32_t>(littleEndian({stored, 2}));
    std::memcpy(value, &wide, 4);
  } else if (element == NpyElement::U4) {
    auto wide = static_cast<int64_t>(littleEndian({stored, 4}));
    std::memcpy(value, &wide, 8);
  } else {
    DType dtype = info(element).decoded;
    convertElements(dtype, stored, dtype, value, 1);
  }
}
} // namespace

bool isSoundShape(const Dims &dims) { return checkedBytes(dims, 8).has_value(); }

size_t storedByteSize(NpyElement element) { return info(element).storedBytes; }
DType decodedType(NpyElement element) { return info(element).decoded; }

uint64_t NpyHeader::storedBytes() const { return static_cast<uint64_t>(dims.elements()) * storedByteSize(element); }
uint64_t NpyHeader::decodedBytes() const {
  return static_cast<uint64_t>(dims.elements()) * byteSize(decodedType(element));
}

Result<uint64_t> npyHeaderBytes(std::span<const std::byte> prefix) {
  static constexpr unsigned char kMagic[] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  if (prefix.size() < 10 || std::memcmp(prefix.data(), kMagic, sizeof kMagic) != 0)
    return Status::invalidInput("not an npy file (numpy.save writes one): it does not begin with \\x93NUMPY");
  auto version = std::to_integer<int>(prefix[6]);
  if (version < 1 || version > 3)
    return Status::invalidInput(fmt::format("npy format version {} is not supported (1 to 3 are)", version));
  size_t lengthBytes = version == 1 ? 2 : 4;
  if (prefix.size() < 8 + lengthBytes)
    return Status::invalidInput("npy file is cut off inside its header");
  uint64_t length = littleEndian(prefix.subspan(8, lengthBytes));
  if (length > kMaxNpyHeaderBytes)
    return Status::invalidInput(
        fmt::format("npy header of {} bytes is above the limit of {}", length, kMaxNpyHeaderBytes));
  return 8 + lengthBytes + length;
}

Result<NpyHeader> parseNpyHeader(std::span<const std::byte> prefix, uint64_t fileBytes) {
  MAESTRO_ASSIGN(uint64_t headerBytes, npyHeaderBytes(prefix));
  if (headerBytes > prefix.size() || headerBytes > fileBytes)
    return Status::invalidInput("npy file is cut off inside its header");
  size_t textStart = prefix[6] == std::byte{1} ? 10 : 12;
  std::string_view text(reinterpret_cast<const char *>(prefix.data()) + textStart, headerBytes - textStart);
  NpyHeader header;
  MAESTRO_TRY(HeaderParser(text).parse(header));
  header.dataOffset = headerBytes;
  header.fortranOrder &= header.dims.rank > 1;
  // The widest decoded type bounds every later product.
  std::optional<uint64_t> decoded = checkedBytes(header.dims, 8);
  std::optional<uint64_t> stored = checkedBytes(header.dims, storedByteSize(header.element));
  uint64_t there = fileBytes - headerBytes;
  if (!decoded || !stored || *stored != there)
    return Status::invalidInput(
        fmt::format("npy array of shape {} and type {} needs {} bytes, but {} follow its header: "
                    "the file is {}",
                    toString(header.dims), info(header.element).code,
                    stored ? fmt::to_string(*stored) : std::string("more than 2^63"), there,
                    stored && *stored < there ? "too long" : "cut off"));
  return header;
}

void decodeNpy(const NpyHeader &header, const std::byte *stored, std::byte *values) {
  NpyElement element = header.element;
  size_t from = storedByteSize(element), to = byteSize(decodedType(element));
  auto count = static_cast<size_t>(header.dims.elements());
  if (header.fortranOrder && count > 0)
    forEachTransposed(
        header.dims, [&](size_t row, size_t column) { decodeOne(element, stored + column * from, values + row * to); });
  else if (from != to)
    for (size_t i = 0; i < count; ++i)
      decodeOne(element, stored + i * from, values + i * to);
  else
    convertElements(decodedType(element), stored, decodedType(element), values, count);
}

} // namespace maestro::data
