// Text built from pieces in memory that stays, so that writing a line in the step loop allocates
// nothing. It formats with std::to_chars: formatting into a buffer with fmt would put 100 kB of
// templates into the executor.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace maestro::metrics {

class Line {
public:
  explicit Line(size_t reservedBytes = 1024) { content.reserve(reservedBytes); }

  Line &operator<<(std::string_view piece) {
    content.append(piece);
    return *this;
  }
  Line &operator<<(const char *piece) { return *this << std::string_view(piece); }
  Line &operator<<(std::integral auto value) {
    return append([&](char *first, char *last) { return std::to_chars(first, last, value); });
  }

  /// With all digits that tell it from its neighbours; null where JSON knows no such number.
  Line &json(double value) {
    if (!std::isfinite(value))
      return *this << "null";
    return append([&](char *first, char *last) { return std::to_chars(first, last, value); });
  }
  /// As printf's %.3f, %.2e and %.3g.
  Line &rounded(double value, std::chars_format format, int digits) {
    return append([&](char *first, char *last) { return std::to_chars(first, last, value, format, digits); });
  }
  /// A JSON string. Invalid UTF-8 is the caller's.
  Line &quoted(std::string_view piece) {
    static constexpr char kHex[] = "0123456789abcdef";
    content += '"';
    for (char c : piece) {
      auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20)
        (content += "\\u00") += {kHex[byte >> 4], kHex[byte & 15]};
      else if (c == '"' || c == '\\')
        (content += '\\') += c;
      else
        content += c;
    }
    content += '"';
    return *this;
  }

  void clear() { content.clear(); }
  const std::string &text() const { return content; }

private:
  template <typename ToChars> Line &append(ToChars toChars) {
    // The longest: a double of 309 digits and a fraction.
    char digits[400];
    auto [end, error] = toChars(digits, digits + sizeof digits);
    return *this << std::string_view(digits, error == std::errc() ? static_cast<size_t>(end - digits) : 0);
  }

  std::string content;
};

} // namespace maestro::metrics
