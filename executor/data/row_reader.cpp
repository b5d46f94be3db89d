// Samples of row files in their order: a position is its number within the pass.
#include "executor/data/permutation.h"
#include "executor/data/row_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace maestro::data {
namespace {

class RowReader final : public SampleReader {
public:
  RowReader(std::vector<std::unique_ptr<RowFile>> opened, bool shuffles, uint64_t seed)
      : files(std::move(opened)), seed(seed) {
    for (const std::unique_ptr<RowFile> &file : files) {
      firstRow.push_back(rows);
      rows += file->rows();
    }
    if (shuffles)
      order.resize(rows);
  }

  Status seek(const DataPosition &position) override {
    if (position.ordinal >= rows)
      return Status::invalidInput(fmt::format("the data position is sample {}, but the data has {}: this is not the data that the "
                                              "checkpoint was made with",
                                              position.ordinal, rows));
    current = {.pass = position.pass, .ordinal = position.ordinal};
    shuffle(order, seed, current.pass);
    return {};
  }

  Status read(Sample &sample) override {
    uint64_t row = order.empty() ? current.ordinal : order[current.ordinal];
    auto after = std::upper_bound(firstRow.begin(), firstRow.end(), row);
    auto number = static_cast<size_t>(after - firstRow.begin()) - 1;
    uint64_t within = row - firstRow[number];
    MAESTRO_TRY(files[number]->read(within, sample));
    std::array<char, 20> digits;
    sample.key.assign(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), within).ptr);
    sample.shard = files[number]->name();
    sample.ordinal = current.ordinal;
    sample.endsPass = ++current.ordinal == rows;
    if (sample.endsPass) {
      current = {.pass = current.pass + 1};
      shuffle(order, seed, current.pass);
    }
    sample.next = current;
    return {};
  }

private:
  std::vector<std::unique_ptr<RowFile>> files;
  std::vector<uint64_t> firstRow; ///< Of each file.
  std::vector<uint64_t> order;    ///< Of the pass; empty where it is the files'.
  uint64_t rows = 0, seed;
  DataPosition current;
};

} // namespace

Result<std::unique_ptr<SampleReader>> openRows(std::vector<std::unique_ptr<RowFile>> files, bool shuffles, uint64_t seed) {
  uint64_t rows = 0;
  for (const std::unique_ptr<RowFile> &file : files)
    rows += file->rows();
  if (rows == 0)
    return Status::invalidInput("the data holds no samples (--data)");
  return std::unique_ptr<SampleReader>(std::make_unique<RowReader>(std::move(files), shuffles, seed));
}

} // namespace maestro::data
