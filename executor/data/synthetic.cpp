#include "executor/data/synthetic.h"

#include "base/philox.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace maestro::data {
namespace {

/// One stream of random numbers per (field or symbol name), apart from each other by its hash.
uint32_t streamOf(std::string_view kind, std::string_view name) {
  uint32_t hash = 2166136261u; // FNV-1a
  auto add = [&](std::string_view text) {
    for (unsigned char c : text)
      hash = (hash ^ c) * 16777619u;
  };
  add(kind);
  add(name);
  return hash;
}

/// Random numbers of one stream in one sample.
class Draws {
public:
  Draws(uint64_t seed, uint64_t ordinal, uint32_t stream)
      : key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, ordinal(ordinal), stream(stream) {}
  PhiloxCounter block(uint32_t index) const {
    return philox4x32({index, static_cast<uint32_t>(ordinal), static_cast<uint32_t>(ordinal >> 32), stream}, key);
  }

private:
  PhiloxKey key;
  uint64_t ordinal;
  uint32_t stream;
};

double drawSize(const Distribution &distribution, const PhiloxCounter &bits) {
  switch (distribution.kind) {
  case Distribution::Kind::Constant:
    return distribution.a;
  case Distribution::Kind::Uniform:
    return distribution.a +
           std::floor((distribution.b - distribution.a + 1) * (static_cast<double>(bits[0]) * 0x1p-32));
  case Distribution::Kind::Normal:
    return distribution.a + distribution.b * static_cast<double>(normalPair(bits[0], bits[1])[0]);
  case Distribution::Kind::LogNormal:
    return distribution.a * std::exp(distribution.b * static_cast<double>(normalPair(bits[0], bits[1])[0]));
  }
  return 0;
}

void fillFloats(const Draws &draws, std::span<float> values) {
  for (size_t i = 0; i < values.size(); i += 4) {
    PhiloxCounter bits = draws.block(static_cast<uint32_t>(i / 4));
    std::array<float, 2> a = normalPair(bits[0], bits[1]), b = normalPair(bits[2], bits[3]);
    float four[4] = {a[0], a[1], b[0], b[1]};
    std::memcpy(&values[i], four, std::min<size_t>(4, values.size() - i) * sizeof(float));
  }
}

void fillIntegers(const Draws &draws, int64_t limit, std::span<int64_t> values) {
  for (size_t i = 0; i < values.size(); i += 2) {
    PhiloxCounter bits = draws.block(static_cast<uint32_t>(i / 2));
    for (size_t j = 0; j < 2 && i + j < values.size(); ++j) {
      uint64_t wide = uint64_t{bits[2 * j]} << 32 | bits[2 * j + 1];
      // The high half of a 128-bit product is uniform in [0, limit) but for 2^-64 of it.
      auto scaled = static_cast<unsigned __int128>(wide) * static_cast<uint64_t>(limit);
      values[i + j] = static_cast<int64_t>(scaled >> 64);
    }
  }
}

/// Any sample, by its number.
class SyntheticSamples final : public SampleValues {
public:
  SyntheticSamples(SyntheticOptions options, std::vector<Distribution> sizes)
      : options(std::move(options)), sizes(std::move(sizes)), values(this->options.symbols.size()) {}

  uint64_t count() const { return options.samples; }

  Status describe(uint64_t number, Sample &sample) {
    nameSample(number, sample.key);
    sample.shard = {};
    MAESTRO_TRY(measure(number));
    sample.fields.assign(options.fields.size(), {});
    for (size_t i = 0; i < sample.fields.size(); ++i) {
      const FieldSpec &spec = options.fields[i];
      SampleField &field = sample.fields[i];
      field.dtype = isFloat(spec.dtype) ? DType::F32 : spec.dtype == DType::Bool ? DType::Bool : DType::I64;
      field.present = !spec.ownPositions;
      for (const DimSpec &dim : spec.dims)
        if (field.present)
          field.dims.append(dim.isFixed() ? dim.size : values[static_cast<size_t>(dim.symbol)]);
    }
    return {};
  }

  Status read(uint64_t number, size_t field, std::span<std::byte> target) override {
    MAESTRO_TRY(measure(number));
    fill(options.fields[field], target);
    return {};
  }

private:
  /// "synthetic/00000012", in the memory that the key has.
  static void nameSample(uint64_t number, std::string &key) {
    char digits[20];
    char *end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    auto length = static_cast<size_t>(end - digits);
    key.assign("synthetic/");
    key.append(length < 8 ? 8 - length : 0, '0').append(digits, length);
  }

  /// Values of the symbols in a sample.
  Status measure(uint64_t number) {
    if (measured == number)
      return {};
    measured = number;
    drawSizes();
    for (const FieldSpec &field : options.fields)
      if (Status status = makeRoom(field); !status.isOk()) {
        measured = UINT64_MAX;
        return status;
      }
    return {};
  }

  void drawSizes() {
    for (size_t s = 0; s < values.size(); ++s) {
      const SymbolSpec &symbol = options.symbols[s];
      Draws draws(options.seed, measured, streamOf("size:", symbol.name));
      double size = std::nearbyint(drawSize(sizes[s], draws.block(0)));
      double least = symbol.combine == Combine::Sum ? 0 : 1;
      auto largest = static_cast<double>(symbol.sampleMax);
      values[s] = static_cast<int64_t>(std::min(std::max(size, least), largest));
    }
  }

  int64_t marksOf(const FieldSpec &field) const {
    int64_t count = 0;
    for (const Mark &mark : field.marks)
      count += mark.perRow * values[static_cast<size_t>(mark.symbol)];
    return count;
  }

  /// A sample is as long as its marked elements, at least.
  Status makeRoom(const FieldSpec &field) {
    int64_t others = 1, *length = nullptr, most = 0;
    for (const DimSpec &dim : field.dims) {
      bool grows =
          !dim.isFixed() && options.symbols[static_cast<size_t>(dim.symbol)].combine == Combine::Max && !length;
      if (grows) {
        length = &values[static_cast<size_t>(dim.symbol)];
        most = options.symbols[static_cast<size_t>(dim.symbol)].sampleMax;
      } else {
        others *= dim.isFixed() ? dim.size : values[static_cast<size_t>(dim.symbol)];
      }
    }
    int64_t marks = marksOf(field), needed = (marks + others - 1) / std::max<int64_t>(others, 1);
    if (marks <= others * (length ? *length : 1))
      return {};
    if (!length || others == 0 || needed > most)
      return Status::invalidInput(
          fmt::format("synthetic/{:08}: field '{}' needs {} marked elements, one for each feature that takes their "
                      "places, and has room "
                      "for {}; declare fewer rows (synthetic.{}), or raise the dims' max of '{}'",
                      measured, field.name, marks, others * (length ? most : 1),
                      options.symbols[static_cast<size_t>(field.marks.front().symbol)].name, field.name));
    *length = needed;
    return {};
  }

  void fill(const FieldSpec &spec, std::span<std::byte> target) {
    Draws draws(options.seed, measured, streamOf("field:", spec.name));
    std::span<int64_t> integers(reinterpret_cast<int64_t *>(target.data()), target.size() / sizeof(int64_t));
    if (isFloat(spec.dtype)) {
      fillFloats(draws, {reinterpret_cast<float *>(target.data()), target.size() / sizeof(float)});
    } else if (spec.dtype == DType::Bool) {
      auto *flags = reinterpret_cast<bool *>(target.data());
      std::fill_n(flags, target.size(), spec.marks.empty());
      std::fill_n(flags, marksOf(spec), true);
    } else {
      if (spec.indexLimit > 0)
        fillIntegers(draws, std::max<int64_t>(spec.indexLimit - marksBelow(spec), 1), integers);
      else
        std::ranges::fill(integers, int64_t{1});
      placeMarks(spec, integers);
    }
  }

  /// How many of the values that are drawn from are marks.
  static int64_t marksBelow(const FieldSpec &spec) {
    return std::count_if(spec.marks.begin(), spec.marks.end(),
                         [&](const Mark &mark) { return mark.value >= 0 && mark.value < spec.indexLimit; });
  }

  /// The marked elements come first; the others step over the marks' values, which come in ascending order.
  void placeMarks(const FieldSpec &spec, std::span<int64_t> target) {
    for (int64_t &value : target)
      for (const Mark &mark : spec.marks)
        value += value >= mark.value && mark.value >= 0;
    int64_t *start = target.data();
    for (const Mark &mark : spec.marks)
      start = std::fill_n(start, mark.perRow * values[static_cast<size_t>(mark.symbol)], mark.value);
  }

  SyntheticOptions options;
  std::vector<Distribution> sizes; ///< One per symbol.
  std::vector<int64_t> values;     ///< Of sample `measured`, one per symbol.
  uint64_t measured = UINT64_MAX;
};

class SyntheticReader final : public SampleReader {
public:
  explicit SyntheticReader(std::shared_ptr<SyntheticSamples> samples) : samples(std::move(samples)) {}

  Status seek(const DataPosition &position) override {
    if (position.ordinal >= samples->count())
      return Status::invalidInput(fmt::format("the data position is sample {}, but the synthetic data has {}",
                                              position.ordinal, samples->count()));
    current = position;
    return {};
  }

  Status read(Sample &sample) override {
    MAESTRO_TRY(samples->describe(current.ordinal, sample));
    sample.values = samples;
    sample.number = sample.ordinal = current.ordinal;
    sample.endsPass = ++current.ordinal == samples->count();
    if (sample.endsPass)
      current = {.pass = current.pass + 1};
    sample.next = current;
    return {};
  }

private:
  std::shared_ptr<SyntheticSamples> samples;
  DataPosition current;
};
} // namespace

Result<std::unique_ptr<SampleReader>> openSynthetic(SyntheticOptions options) {
  if (options.samples == 0)
    return Status::invalidInput("synthetic data needs at least 1 sample");
  std::vector<Distribution> sizes;
  for (const SymbolSpec &symbol : options.symbols) {
    double size = symbol.combine == Combine::Sum ? 1 : static_cast<double>(symbol.sampleMax);
    sizes.push_back({.a = size});
    for (const NamedDistribution &named : options.sizes)
      if (named.symbol == symbol.name)
        sizes.back() = named.distribution;
  }
  for (FieldSpec &field : options.fields)
    std::sort(field.marks.begin(), field.marks.end(), [](const Mark &a, const Mark &b) { return a.value < b.value; });
  for (const FieldSpec &field : options.fields)
    if (field.dims.size() > Dims::kMaxRank)
      return Status::invalidInput(fmt::format("field '{}' has {} dims; at most {} are supported", field.name,
                                              field.dims.size(), Dims::kMaxRank));
  auto samples = std::make_shared<SyntheticSamples>(std::move(options), std::move(sizes));
  return std::unique_ptr<SampleReader>(std::make_unique<SyntheticReader>(std::move(samples)));
}

} // namespace maestro::data
