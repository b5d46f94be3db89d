#include "executor/data/scalar_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace maestro::data {
namespace {

template <typename T> bool parseWhole(std::string_view text, T &value) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string printable(std::string_view text) {
  std::string shown(text.substr(0, 30));
  for (char &c : shown)
    if (c < 0x20 || c > 0x7e)
      c = '?';
  return shown;
}
} // namespace

Result<ScalarText> parseScalarText(std::string_view text) {
  static constexpr std::string_view kSpaces = " \t\r\n";
  size_t first = text.find_first_not_of(kSpaces);
  size_t last = text.find_last_not_of(kSpaces);
  std::string_view word = first == std::string_view::npos ? "" : text.substr(first, last - first + 1);
  ScalarText scalar;
  if (word == "true" || word == "false") {
    scalar.format = ValueFormat::BoolText;
    scalar.integer = word == "true";
    return scalar;
  }
  if (parseWhole(word, scalar.integer))
    return scalar;
  scalar.format = ValueFormat::FloatText;
  bool isInteger = word.find_first_not_of("+-0123456789") == std::string_view::npos;
  if (!isInteger && parseWhole(word, scalar.real) && std::isfinite(scalar.real))
    return scalar;
  return Status::invalidInput(
      fmt::format("'{}' is not one number within int64 or finite double, nor true or false; store "
                  "arrays as .npy",
                  printable(word)));
}

} // namespace maestro::data
