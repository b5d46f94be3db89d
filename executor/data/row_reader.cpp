// Samples of row files: a position is a number, from which all follows.
#include "executor/data/permutation.h"
#include "executor/data/row_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace maestro::data {
namespace {

/// Which source each sample of a mixture is from. Weights become shares of kCycle, and every kCycle samples the turns
/// repeat, so that how often a source was read follows from the number of samples alone.
class Turns {
public:
  static constexpr uint64_t kCycle = 4096;

  explicit Turns(std::span<const RowSource> sources) {
    double sum = 0;
    for (const RowSource &source : sources)
      sum += source.weight;
    std::vector<double> due(sources.size(), 0);
    std::vector<uint64_t> counts(sources.size(), 0);
    for (uint64_t turn = 0; turn < kCycle; ++turn) { // Whoever lacks most.
      for (size_t i = 0; i < sources.size(); ++i)
        due[i] += sources[i].weight / sum;
      auto next = static_cast<size_t>(std::max_element(due.begin(), due.end()) - due.begin());
      due[next] -= 1;
      turns.push_back({next, counts[next]++});
    }
    shares = std::move(counts);
  }

  struct Turn {
    size_t source = 0;
    uint64_t count = 0; ///< How often it had its turn before.
  };
  Turn of(uint64_t sample) const {
    Turn turn = turns[sample % kCycle];
    turn.count += sample / kCycle * shares[turn.source];
    return turn;
  }
  /// Whether the source is read at all.
  bool reads(size_t source) const { return shares[source] > 0; }

private:
  std::vector<Turn> turns;
  std::vector<uint64_t> shares;
};

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
  RowReader(std::vector<RowSource> opened, bool shuffles, uint64_t seed) : turns(opened) {
    for (RowSource &source : opened) {
      sources.emplace_back(std::move(source), shuffles, seed);
      rows += sources.back().size();
    }
  }

  Status check() const {
    for (size_t i = 0; i < sources.size(); ++i)
      if (sources[i].size() == 0 || !turns.reads(i))
        return Status::invalidInput(
            sources[i].size() == 0
                ? "the data holds no samples (--data)"
                : fmt::format("source {} of --data has less than 1/{} of all weights; give it more, or leave "
                              "it out",
                              i, Turns::kCycle));
    return {};
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
  auto reader = std::make_unique<RowReader>(std::move(sources), shuffles, seed);
  MAESTRO_TRY(reader->check());
  return std::unique_ptr<SampleReader>(std::move(reader));
}

} // namespace maestro::data
