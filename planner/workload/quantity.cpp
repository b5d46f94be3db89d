#include "planner/workload/quantity.h"

#include "planner/workload/key_listener.h"

#include <fmt/format.h>

namespace maestro::planner {

Result<double> readQuantity(const YamlNode &node, const std::string &path, std::initializer_list<Unit> units,
                            const char *example) {
  KeyListener::isOfKind(path, std::string("a number with its unit, such as ") + example);
  MAESTRO_ASSIGN(std::string text, readText(node, path));
  size_t end = text.find_first_not_of("0123456789.eE+-");
  // "450e9 B/s" ends its number before the space; "2 us" likewise.
  YamlNode number = node;
  number.scalar = text.substr(0, end);
  size_t begin = end == std::string::npos ? text.size() : text.find_first_not_of(' ', end);
  std::string unit = begin == std::string::npos ? "" : text.substr(begin);
  for (const Unit &known : units)
    if (unit == known.name) {
      MAESTRO_ASSIGN(double value, readNumber(number, path, {0, 1e18}));
      return value * known.factor;
    }
  return wrong(node, path, fmt::format("is '{}'; write a number with its unit, such as {}", text, example));
}

Result<double> readBandwidth(const YamlNode &node, const std::string &path) {
  MAESTRO_ASSIGN(double bytesPerSecond, readQuantity(node, path,
                                                     {{"B/s", 1},
                                                      {"kB/s", 1e3},
                                                      {"KB/s", 1e3},
                                                      {"MB/s", 1e6},
                                                      {"GB/s", 1e9},
                                                      {"TB/s", 1e12},
                                                      {"KiB/s", 0x1p10},
                                                      {"MiB/s", 0x1p20},
                                                      {"GiB/s", 0x1p30},
                                                      {"TiB/s", 0x1p40},
                                                      {"Mbit/s", 1e6 / 8},
                                                      {"Gbit/s", 1e9 / 8},
                                                      {"Tbit/s", 1e12 / 8},
                                                      {"Mb/s", 1e6 / 8},
                                                      {"Gb/s", 1e9 / 8},
                                                      {"Tb/s", 1e12 / 8}},
                                                     "450 GB/s (bytes) or 400 Gb/s (bits)"));
  if (bytesPerSecond <= 0)
    return wrong(node, path, "must be above 0");
  return bytesPerSecond;
}

Result<uint64_t> readMemory(const YamlNode &node, const std::string &path) {
  MAESTRO_ASSIGN(double bytes, readQuantity(node, path,
                                            {{"B", 1},
                                             {"kB", 1e3},
                                             {"KB", 1e3},
                                             {"MB", 1e6},
                                             {"GB", 1e9},
                                             {"TB", 1e12},
                                             {"KiB", 0x1p10},
                                             {"MiB", 0x1p20},
                                             {"GiB", 0x1p30},
                                             {"TiB", 0x1p40}},
                                            "80 GB or 80 GiB"));
  if (bytes < 1)
    return wrong(node, path, "must be above 0");
  return static_cast<uint64_t>(bytes);
}

Result<double> readDuration(const YamlNode &node, const std::string &path) {
  return readQuantity(node, path, {{"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}}, "2 us");
}

} // namespace maestro::planner
