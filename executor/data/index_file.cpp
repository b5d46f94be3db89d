#include "executor/data/index_file.h"

#include "base/bytes.h"
#include "base/hash.h"
#include "executor/data/scalar_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace maestro::data {
namespace {

constexpr std::string_view kMagic = "MSTINDEX";
constexpr uint32_t kVersion = 1;
constexpr uint8_t kFortran = 0x80;
/// No shard is larger; sums of two stay far from overflow.
constexpr uint64_t kMaxBytes = uint64_t{1} << 60;

uint64_t hashOf(std::span<const std::byte> bytes) {
  return hashBytes({reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()});
}

uint64_t zigzag(int64_t value) { return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63); }
int64_t unzigzag(uint64_t value) { return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1)); }

class Writer {
public:
  template <typename T> Writer &fixed(T value) {
    out.number(value);
    return *this;
  }
  Writer &number(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      out.number(static_cast<uint8_t>(value | 0x80));
    out.number(static_cast<uint8_t>(value));
    return *this;
  }
  Writer &text(std::string_view text) {
    number(text.size());
    out.raw(std::as_bytes(std::span(text)));
    return *this;
  }
  Writer &offset(uint64_t value) {
    number(zigzag(static_cast<int64_t>(value - std::exchange(last, value))));
    return *this;
  }
  ByteWriter out;

private:
  uint64_t last = 0;
};

void writeArray(const ShardIndex &index, const IndexedArray &array, Writer &out) {
  out.number(array.field).fixed(static_cast<uint8_t>(array.format));
  Dims dims = index.dimsOf(array);
  switch (array.format) {
  case ValueFormat::Npy:
    out.fixed(static_cast<uint8_t>(static_cast<uint8_t>(array.element) | (array.fortranOrder ? kFortran : 0)));
    out.fixed(array.rank);
    for (int64_t size : dims.shape())
      out.number(static_cast<uint64_t>(size));
    out.number(array.headerBytes).fixed(array.headerHash).offset(array.offset);
    break;
  case ValueFormat::IntegerText:
  case ValueFormat::FloatText:
  case ValueFormat::BoolText:
    out.fixed(array.textBytes).offset(array.offset);
    break;
  case ValueFormat::DamagedNpy:
  case ValueFormat::DamagedText:
    out.number(static_cast<uint64_t>(dims[0])).offset(array.offset);
    break;
  case ValueFormat::Other:
    break;
  }
}

/// What cannot be is noted, and read as 0: asked once for each sample.
class Reader {
public:
  Reader(const ByteReader &from, uint64_t tarBytes) : in(from), tarBytes(tarBytes) {}

  template <typename T> T fixed() { return in.number<T>(); }
  uint64_t number(uint64_t most) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      auto byte = in.number<uint8_t>();
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80)
        return limited(value, most);
    }
    return limited(1, 0);
  }
  std::string_view text() {
    std::span<const std::byte> bytes = in.raw(number(kMaxBytes));
    return {reinterpret_cast<const char *>(bytes.data()), bytes.size()};
  }
  /// Of `before` + `bytes` bytes in the tar, of which the first `before` lie before it.
  uint64_t offset(uint64_t before, uint64_t bytes) {
    last += static_cast<uint64_t>(unzigzag(number(UINT64_MAX)));
    good &= last >= before && last <= tarBytes && bytes <= tarBytes - last;
    return last;
  }
  template <typename T> T limited(T value, T most) {
    good &= value <= most;
    return value <= most ? value : T{0};
  }
  bool isGood() const { return good && in.isOk(); }
  bool isWhole() const { return good && in.isWhole(); }

private:
  ByteReader in;
  uint64_t tarBytes, last = 0;
  bool good = true;
};

/// An array's shape and place; false where no file has it.
bool readNpy(Reader &in, ShardIndex &index, IndexedArray &array) {
  auto element = in.fixed<uint8_t>();
  array.fortranOrder = (element & kFortran) != 0;
  array.element =
      static_cast<NpyElement>(in.limited<uint8_t>(element & ~kFortran, static_cast<uint8_t>(NpyElement::B1)));
  array.rank = in.limited<uint8_t>(in.fixed<uint8_t>(), Dims::kMaxRank);
  NpyHeader header{array.element, array.fortranOrder, {}, 0};
  for (uint8_t d = 0; d < array.rank; ++d) {
    auto size = static_cast<int64_t>(in.number(std::numeric_limits<int64_t>::max()));
    header.dims.append(size);
    index.dims.push_back(size);
  }
  array.headerBytes = static_cast<uint16_t>(in.number(12 + kMaxNpyHeaderBytes));
  array.headerHash = in.fixed<uint32_t>();
  bool isSound = isSoundShape(header.dims) && !(array.fortranOrder && array.rank < 2);
  array.offset = in.offset(array.headerBytes, isSound ? header.storedBytes() : 0);
  return isSound && in.isGood();
}

bool readArray(Reader &in, ShardIndex &index) {
  IndexedArray array{.firstDim = index.dims.size()};
  array.field = static_cast<uint32_t>(in.number(index.fields.empty() ? 0 : index.fields.size() - 1));
  auto format = in.limited<uint8_t>(in.fixed<uint8_t>(), static_cast<uint8_t>(ValueFormat::DamagedText));
  array.format = static_cast<ValueFormat>(format);
  bool isSound = !index.fields.empty();
  if (array.format == ValueFormat::Npy) {
    isSound &= readNpy(in, index, array);
  } else if (isReadable(array.format)) {
    array.textBytes = in.limited<uint8_t>(in.fixed<uint8_t>(), kMaxScalarTextBytes);
    array.offset = in.offset(0, array.textBytes);
  } else if (array.format != ValueFormat::Other) {
    array.rank = 1;
    uint64_t bytes = in.number(kMaxBytes);
    index.dims.push_back(static_cast<int64_t>(bytes));
    array.offset = in.offset(0, bytes);
  }
  index.arrays.push_back(array);
  return isSound && in.isGood();
}

} // namespace

std::vector<std::byte> encodeIndex(const KeptIndex &kept) {
  const ShardIndex &index = kept.index;
  Writer out;
  out.out.raw(std::as_bytes(std::span(kMagic)));
  out.fixed(kVersion).fixed(static_cast<uint32_t>(index.fields.size()));
  out.fixed(kept.stamp.bytes).fixed(kept.stamp.modifiedNs).fixed(kept.stamp.endsHash).fixed(kept.tarBytes);
  out.fixed(uint64_t{index.sampleCount()}).fixed(uint64_t{index.arrays.size()});
  for (const std::string &field : index.fields)
    out.text(field);
  for (size_t sample = 0; sample < index.sampleCount(); ++sample) {
    out.text(index.key(sample)).number(index.arraysOf(sample).size());
    for (const IndexedArray &array : index.arraysOf(sample))
      writeArray(index, array, out);
  }
  std::vector<std::byte> bytes = out.out.take();
  uint64_t hash = hashOf(bytes);
  std::span<const std::byte> end = std::as_bytes(std::span(&hash, 1));
  bytes.insert(bytes.end(), end.begin(), end.end());
  return bytes;
}

Result<KeptIndex> decodeIndex(std::span<const std::byte> bytes) {
  constexpr size_t kHashBytes = 8;
  auto damaged = [] { return Status::invalidInput("is damaged"); };
  if (bytes.size() < kMagic.size() + 4 + kHashBytes)
    return Status::invalidInput("is cut off");
  std::span<const std::byte> content = bytes.first(bytes.size() - kHashBytes);
  ByteReader start(content);
  std::span<const std::byte> magic = start.raw(kMagic.size());
  if (!std::ranges::equal(magic, std::as_bytes(std::span(kMagic))))
    return Status::invalidInput("is no index of a shard");
  if (auto version = start.number<uint32_t>(); version != kVersion)
    return Status::invalidInput(fmt::format("has version {}, not {}", version, kVersion));
  if (ByteReader(bytes.last(kHashBytes)).number<uint64_t>() != hashOf(content))
    return damaged();

  KeptIndex kept;
  auto fields = start.number<uint32_t>();
  kept.stamp.bytes = start.number<uint64_t>();
  kept.stamp.modifiedNs = start.number<int64_t>();
  kept.stamp.endsHash = start.number<uint64_t>();
  kept.tarBytes = start.number<uint64_t>();
  auto samples = start.number<uint64_t>(), arrays = start.number<uint64_t>();
  // Each takes bytes of the file, which bound what is reserved.
  if (!start.isOk() || kept.tarBytes > kMaxBytes || samples > content.size() / 2 || arrays > content.size() / 2)
    return damaged();
  Reader in(start, kept.tarBytes);
  ShardIndex &index = kept.index;
  for (uint32_t i = 0; i < fields && in.isGood(); ++i)
    index.fields.emplace_back(in.text());
  index.samples.reserve(samples + 1);
  index.arrays.reserve(arrays);
  for (uint64_t sample = 0; sample < samples; ++sample) {
    index.samples.push_back({index.arrays.size(), index.keys.size()});
    index.keys += in.text();
    for (uint64_t count = in.number(arrays - index.arrays.size()); count > 0; --count)
      if (!readArray(in, index))
        return damaged();
    if (!in.isGood())
      return damaged();
  }
  index.samples.push_back({index.arrays.size(), index.keys.size()});
  if (!in.isWhole() || index.arrays.size() != arrays)
    return damaged();
  return kept;
}

} // namespace maestro::data
