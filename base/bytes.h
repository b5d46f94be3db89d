// Little-endian records for what processes tell each other: written field by field, read with every bound checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace maestro {

class ByteWriter {
public:
  template <typename T> ByteWriter &number(T value) {
    static_assert(std::is_integral_v<T>);
    auto bytes = reinterpret_cast<const std::byte *>(&value);
    buffer.insert(buffer.end(), bytes, bytes + sizeof value);
    return *this;
  }
  /// Its length, in 32 bits, then the bytes.
  ByteWriter &block(std::span<const std::byte> bytes) {
    number(static_cast<uint32_t>(bytes.size()));
    return raw(bytes);
  }
  ByteWriter &text(std::string_view text) { return block(std::as_bytes(std::span(text))); }
  ByteWriter &raw(std::span<const std::byte> bytes) {
    buffer.insert(buffer.end(), bytes.begin(), bytes.end());
    return *this;
  }
  std::vector<std::byte> take() { return std::move(buffer); }

private:
  std::vector<std::byte> buffer;
};

/// What is read past the end is zero or empty, and isOk() says so: check it once, at the end.
class ByteReader {
public:
  explicit ByteReader(std::span<const std::byte> bytes) : left(bytes) {}

  template <typename T> T number() {
    static_assert(std::is_integral_v<T>);
    T value = 0;
    if (std::span<const std::byte> bytes = raw(sizeof value); !bytes.empty())
      std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::span<const std::byte> block() { return raw(number<uint32_t>()); }
  std::string text() {
    std::span<const std::byte> bytes = block();
    return std::string(reinterpret_cast<const char *>(bytes.data()), bytes.size());
  }
  std::span<const std::byte> raw(size_t count) {
    if (count > left.size()) {
      ok = false;
      left = {};
      return {};
    }
    std::span<const std::byte> bytes = left.first(count);
    left = left.subspan(count);
    return bytes;
  }
  /// What has not been read, now read.
  std::span<const std::byte> rest() { return raw(left.size()); }
  bool isOk() const { return ok; }
  /// Everything was read, and nothing past the end.
  bool isWhole() const { return ok && left.empty(); }

private:
  std::span<const std::byte> left;
  bool ok = true;
};

} // namespace maestro
