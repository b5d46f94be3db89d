// Attributes in MLIR's text, written without it: each function returns `key = value`, or nothing where a value is
// absent. Internal to plan/print.
#pragma once

#include "base/dtype.h"
#include "plan/plan.h"
#include "plan/plan_generated.h"

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace maestro::plan::mlir_attributes {

/// A string literal, as MLIR escapes it.
std::string quoted(std::string_view text);
inline std::string quoted(const flatbuffers::String *text) { return quoted(text->string_view()); }
/// `1.0e-03`: the fewest digits that give the number back; bits where it is not finite.
std::string literal(double value);
inline std::string literal(std::integral auto value) { return std::to_string(value); }
/// What is above the largest i64.
inline std::string literal(uint64_t value) { return fmt::format("{}{}", value, value >> 63 ? " : ui64" : ""); }

inline std::string number(std::string_view key, auto value) { return fmt::format("{} = {}", key, literal(value)); }
inline std::string word(std::string_view key, std::string_view value) {
  return fmt::format("{} = {}", key, quoted(value));
}
inline std::string dtype(std::string_view key, uint8_t value) {
  return word(key, maestro::name(static_cast<DType>(value)));
}
inline std::string flag(std::string_view key, bool value) { return std::string(value ? key : ""); }
inline std::string string(std::string_view key, const flatbuffers::String *value) {
  return value ? word(key, value->string_view()) : "";
}
inline std::string indexOrNone(std::string_view key, uint32_t value) {
  return value == kNone ? "" : number(key, value);
}
/// Two digits a byte.
std::string hex(std::string_view key, const flatbuffers::Vector<uint8_t> *bytes);

/// `text` writes an item.
template <typename T, typename Text>
std::string list(std::string_view key, const flatbuffers::Vector<T> *values, Text text) {
  if (!values || values->size() == 0)
    return "";
  std::string result;
  for (const auto &value : *values)
    result += (result.empty() ? "" : ", ") + text(value);
  return fmt::format("{} = [{}]", key, result);
}
template <typename T> std::string numbers(std::string_view key, const flatbuffers::Vector<T> *values) {
  return list(key, values, [](T value) { return literal(value); });
}
inline std::string strings(std::string_view key,
                           const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *values) {
  return list(key, values, [](const flatbuffers::String *value) { return quoted(value); });
}

/// `{a = 1, b}` of attributes that are there.
template <typename... Attributes> std::string dictionary(const Attributes &...attributes) {
  std::string result;
  for (std::string_view own : {std::string_view(attributes)...})
    if (!own.empty())
      result.append(result.empty() ? "" : ", ").append(own);
  return "{" + result + "}";
}

/// Rows of a table, which may be absent.
template <typename T, typename Row> void each(const flatbuffers::Vector<T> *rows, Row row) {
  for (uint32_t i = 0; rows && i < rows->size(); ++i)
    row(i, *rows->Get(i));
}

} // namespace maestro::plan::mlir_attributes
