// Numbers and tables as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::plan {

std::string humanBytes(uint64_t bytes);            ///< "1.5 GiB", "64 B"
std::string humanCount(double count);              ///< "1.2 billion", "35,136"
std::string humanFlops(double flops);              ///< "12.3 GFLOP"
std::string humanBandwidth(double bytesPerSecond); ///< "8.00 GB/s", as vendors count
std::string humanSeconds(double seconds);          ///< "250 ms"
std::string grouped(uint64_t number);              ///< "1,234,567"
std::string escapeHtml(std::string_view text);
/// A CSS colour for a section, the same in each drawing: hues far apart, whatever the number of sections.
std::string sectionColor(uint32_t section);

/// Rows of cells in columns as wide as their widest cell; the last column is not padded. Columns in
/// `rightAligned` (a bit each) hold numbers.
class TextTable {
public:
  explicit TextTable(unsigned rightAligned = 0) : rightAligned(rightAligned) {}
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
  bool empty() const { return rows.empty(); }
  /// Each row indented by two spaces.
  std::string str() const;

private:
  unsigned rightAligned;
  std::vector<std::vector<std::string>> rows;
};

} // namespace maestro::plan
