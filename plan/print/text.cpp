// Numbers and tables as people read them.
#include "plan/print/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace maestro::plan {
namespace {

std::string scaled(double value, double step, std::span<const char *const> units) {
  size_t unit = 0;
  for (; value >= step * 0.9995 && unit + 1 < units.size(); ++unit)
    value /= step;
  return fmt::format("{:.{}f} {}", value, unit == 0 ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0, units[unit]);
}

/// Characters, not bytes: columns hold names in UTF-8.
size_t width(const std::string &cell) {
  return static_cast<size_t>(
      std::count_if(cell.begin(), cell.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

} // namespace

std::string humanBytes(uint64_t bytes) {
  constexpr std::array<const char *, 6> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(static_cast<double>(bytes), 1024, units);
}

std::string humanFlops(double flops) {
  constexpr std::array<const char *, 6> units = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"};
  return scaled(flops, 1000, units);
}

std::string humanBandwidth(double bytesPerSecond) {
  constexpr std::array<const char *, 5> units = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return scaled(bytesPerSecond, 1000, units);
}

std::string humanCount(double count) {
  if (count < 1e6)
    return grouped(static_cast<uint64_t>(count));
  constexpr std::array<const char *, 3> units = {"million", "billion", "trillion"};
  return scaled(count / 1e6, 1000, units);
}

std::string humanSeconds(double seconds) {
  if (seconds >= 120)
    return fmt::format("{:.1f} min", seconds / 60);
  if (seconds >= 1)
    return fmt::format("{:.2f} s", seconds);
  constexpr std::array<const char *, 2> units = {"us", "ms"};
  return scaled(seconds * 1e6, 1000, units);
}

std::string grouped(uint64_t number) {
  std::string digits = std::to_string(number), text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0)
      text += ',';
    text += digits[i];
  }
  return text;
}

std::string sectionColor(uint32_t section) {
  return fmt::format("hsl({:.0f} 60% 50%)", std::fmod(210 + 137.5 * section, 360));
}

std::string escapeHtml(std::string_view text) {
  std::string result;
  for (char character : text) {
    if (character == '<')
      result += "&lt;";
    else if (character == '>')
      result += "&gt;";
    else if (character == '&')
      result += "&amp;";
    else if (character == '"')
      result += "&quot;";
    else
      result += character;
  }
  return result;
}

std::string TextTable::str() const {
  std::vector<size_t> widths;
  for (const auto &row : rows)
    for (size_t column = 0; column < row.size(); ++column) {
      widths.resize(std::max(widths.size(), column + 1), 0);
      widths[column] = std::max(widths[column], width(row[column]));
    }
  std::string text;
  for (const auto &row : rows) {
    std::string line = " ";
    for (size_t column = 0; column < row.size(); ++column) {
      std::string padding(widths[column] - width(row[column]), ' ');
      line += rightAligned >> column & 1 ? " " + padding + row[column] : " " + row[column] + padding;
      line += column + 1 < row.size() ? " " : "";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

} // namespace maestro::plan
