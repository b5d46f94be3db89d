// Samples of row files: a position is a number, from which all follows.
#include "executor/data/permutation.h"
#include "executor/data/row_files.h"
#include "executor/data/turns.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace maestro::data {
namespace {

/// A source's rows in the order of its own pass.
class Rows {
public:
  Rows(RowSource opened, bool shuffles, uint64_t seed) : source(std::move(opened)), seed(seed) {
    for (const std::shared_ptr<RowFile> &file : source.files) {
      firstRow.push_back(count);
      count += file->rows();
    }
    if (shuffles)
      order.resize(count);
  }

  uint64_t size() const { return count; }

  void describe(uint64_t number, Sample &sample) {
    if (!order.empty() && shuffledPass != number / count + 1) {
      shuffledPass = number / count + 1;
      shuffle(order, seed, number / count);
    }
    uint64_t row = order.empty() ? number % count : order[number % count];
    auto after = std::upper_bound(firstRow.begin(), firstRow.end(), row);
    auto file = static_cast<size_t>(after - firstRow.begin()) - 1;
    uint64_t within = row - firstRow[file];
    source.files[file]->describe(within, sample);
    sample.values = source.files[file];
    sample.number = within;
    sample.shard = source.files[file]->name();
  }

private:
  RowSource source;
  std::vector<uint64_t> firstRow; ///< Of each file.
  std::vector<uint64_t> order;    ///< Of a pass; empty where it is the files'.
  uint64_t count = 0, seed, shuffledPass = 0;
};

class RowReader final : public SampleReader {
public:
  RowReader(Turns chosen, std::vector<RowSource> opened, bool shuffles, uint64_t seed) : turns(std::move(chosen)) {
    for (RowSource &source : opened) {
      sources.emplace_back(std::move(source), shuffles, seed);
      rows += sources.back().size();
    }
  }

  bool hasEmpty() const {
    return std::any_of(sources.begin(), sources.end(), [](const Rows &source) { return source.size() == 0; });
  }

  Status seek(const DataPosition &position) override {
    if (position.ordinal >= rows)
      return Status::invalidInput(
          fmt::format("the data position is sample {}, but the data has {}: this is not the data that the "
                      "checkpoint was made with",
                      position.ordinal, rows));
    current = {.pass = position.pass, .ordinal = position.ordinal};
    return {};
  }

  Status read(Sample &sample) override {
    Turns::Turn turn = turns.of(current.pass * rows + current.ordinal);
    sources[turn.source].describe(turn.count, sample);
    sample.ordinal = current.ordinal;
    sample.endsPass = ++current.ordinal == rows;
    if (sample.endsPass)
      current = {.pass = current.pass + 1};
    sample.next = current;
    return {};
  }

private:
  Turns turns;
  std::vector<Rows> sources;
  uint64_t rows = 0; ///< Of all: a pass reads as many.
  DataPosition current;
};

} // namespace

void setKey(uint64_t row, Sample &sample) {
  std::array<char, 20> digits;
  sample.key.assign(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), row).ptr);
}

Result<std::unique_ptr<SampleReader>> openRows(std::vector<RowSource> sources, bool shuffles, uint64_t seed) {
  std::vector<double> weights;
  for (const RowSource &source : sources)
    weights.push_back(source.weight);
  MAESTRO_ASSIGN(Turns turns, Turns::create(weights));
  auto reader = std::make_unique<RowReader>(std::move(turns), std::move(sources), shuffles, seed);
  if (reader->hasEmpty())
    return Status::invalidInput("the data holds no samples (--data)");
  return std::unique_ptr<SampleReader>(std::move(reader));
}

} // namespace maestro::data
