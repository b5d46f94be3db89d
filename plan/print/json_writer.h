// Writes JSON text: objects and arrays nest as calls nest, keys keep the order in which they are written.
#pragma once

#include "base/log.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace maestro::plan {

class JsonWriter {
public:
  /// Writes `{ … }` around what `members` writes. Objects and arrays marked flat stay on one line.
  template <typename Members> void object(Members members, bool flat = false) { nest('{', '}', members, flat); }
  template <typename Items> void array(Items items, bool flat = false) { nest('[', ']', items, flat); }

  /// Starts a member; its value follows.
  JsonWriter &key(std::string_view name) {
    separate();
    text += fmt::format("\"{}\": ", name);
    afterKey = true;
    return *this;
  }

  void number(int64_t value) { raw(fmt::format("{}", value)); }
  void number(uint64_t value) { raw(fmt::format("{}", value)); }
  void number(uint32_t value) { number(uint64_t{value}); }
  /// Infinities and NaN, which JSON lacks, become strings.
  void number(double value) { raw(std::isfinite(value) ? fmt::format("{}", value) : fmt::format("\"{}\"", value)); }
  void boolean(bool value) { raw(value ? "true" : "false"); }
  void string(std::string_view value) { raw(fmt::format("\"{}\"", escapeJson(value))); }
  void null() { raw("null"); }

  std::string take() { return std::move(text) + "\n"; }

private:
  void raw(std::string_view value) {
    separate();
    text += value;
  }

  template <typename Body> void nest(char open, char close, Body body, bool flat) {
    separate();
    text += open;
    bool outerFlat = this->flat;
    this->flat |= flat;
    ++depth;
    isFirst = true;
    body();
    --depth;
    if (!isFirst && !this->flat)
      newLine();
    isFirst = false;
    this->flat = outerFlat;
    text += close;
  }

  void separate() {
    if (afterKey) {
      afterKey = false;
      return;
    }
    if (!isFirst)
      text += flat ? ", " : ",";
    if (depth > 0 && !flat)
      newLine();
    isFirst = false;
  }

  void newLine() {
    text += '\n';
    text.append(depth, ' ');
  }

  std::string text;
  size_t depth = 0;
  bool isFirst = true, afterKey = false, flat = false;
};

} // namespace maestro::plan
