#include "plan/print/mlir_attributes.h"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>

namespace maestro::plan::mlir_attributes {

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char character : text) {
    auto byte = static_cast<uint8_t>(character);
    if (byte == '\\')
      result += "\\\\";
    else if (byte == '"' || byte < 0x20 || byte >= 0x7f)
      result += fmt::format("\\{:02X}", byte);
    else
      result += character;
  }
  return result + "\"";
}

std::string literal(double value) {
  if (!std::isfinite(value))
    return fmt::format("0x{:016X} : f64", std::bit_cast<uint64_t>(value));
  std::array<char, 32> digits;
  std::string text(digits.data(),
                   std::to_chars(digits.begin(), digits.end(), value, std::chars_format::scientific).ptr);
  if (text.find('.') == text.npos)
    text.insert(text.find('e'), ".0");
  return text;
}

std::string hex(std::string_view key, const flatbuffers::Vector<uint8_t> *bytes) {
  if (!bytes || bytes->size() == 0)
    return "";
  std::string digits;
  for (uint8_t byte : *bytes)
    digits += fmt::format("{:02x}", byte);
  return word(key, digits);
}

} // namespace maestro::plan::mlir_attributes
