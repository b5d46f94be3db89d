// How json.cpp writes a field that is no table.
#pragma once

#include "base/dtype.h"
#include "plan/plan.h"
#include "plan/print/json_writer.h"

namespace maestro::plan {

inline std::string base64(const flatbuffers::Vector<uint8_t> &bytes) {
  constexpr const char *kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (uint32_t i = 0; i < bytes.size(); i += 3) {
    uint32_t count = std::min<uint32_t>(3, bytes.size() - i), group = 0;
    for (uint32_t byte = 0; byte < 3; ++byte)
      group = group << 8 | (byte < count ? bytes.Get(i + byte) : 0);
    for (uint32_t digit = 0; digit < 4; ++digit)
      text += digit <= count ? kDigits[group >> (18 - 6 * digit) & 63] : '=';
  }
  return text;
}

/// A member of each kind of value.
class JsonFields {
protected:
  template <typename T> void number(const char *name, T value) { json.key(name).number(value); }
  void flag(const char *name, bool value) { json.key(name).boolean(value); }
  void name(const char *name, const char *value) { json.key(name).string(value); }
  void dtype(const char *name, uint8_t value) { json.key(name).string(maestro::name(static_cast<DType>(value))); }
  void hash(const char *name, uint64_t value) { json.key(name).string(fmt::format("{:016x}", value)); }

  void index(const char *name, uint32_t value) {
    json.key(name);
    writeIndex(value);
  }
  void writeIndex(uint32_t value) { value == kNone ? json.null() : json.number(value); }

  void text(const char *name, const flatbuffers::String *value) {
    json.key(name);
    value ? json.string(value->string_view()) : json.null();
  }

  void bytes(const char *name, const flatbuffers::Vector<uint8_t> *value) {
    json.key(name);
    value ? json.string(base64(*value)) : json.null();
  }

  template <typename T> void numbers(const char *name, const flatbuffers::Vector<T> *values) {
    json.key(name);
    if (!values)
      return json.null();
    json.array(
        [&] {
          for (T value : *values)
            json.number(value);
        },
        true);
  }

  void indices(const char *name, const flatbuffers::Vector<uint32_t> &values) {
    json.key(name).array(
        [&] {
          for (uint32_t value : values)
            writeIndex(value);
        },
        true);
  }

  void texts(const char *name, const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>> *values) {
    json.key(name);
    if (!values)
      return json.null();
    json.array([&] {
      for (const flatbuffers::String *value : *values)
        json.string(value->string_view());
    });
  }

  JsonWriter json;
};

} // namespace maestro::plan
