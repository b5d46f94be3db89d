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

class SyntheticReader final : public SampleReader {
public:
  SyntheticReader(SyntheticOptions options, std::vector<Distribution> sizes)
      : options(std::move(options)), sizes(std::move(sizes)), values(this->options.symbols.size()) {}

  Status seek(const DataPosition &position) override {
    if (position.ordinal >= options.samples)
      return Status::invalidInput(fmt::format("the data position is sample {}, but the synthetic data has {}",
                                              position.ordinal, options.samples));
    current = position;
    return {};
  }

  Status read(Sample &sample) override {
    nameSample(sample.key);
    sample.shard = {};
    sample.ordinal = current.ordinal;
    drawSizes();
    for (const FieldSpec &field : options.fields)
      MAESTRO_TRY(makeRoom(field));
    layOut(sample);
    for (size_t i = 0; i < sample.fields.size(); ++i)
      if (sample.fields[i].present)
        fillField(options.fields[i], sample.fields[i]);
    sample.endsPass = ++current.ordinal == options.samples;
    if (sample.endsPass)
      current = {.pass = current.pass + 1};
    sample.next = current;
    return {};
  }

private:
  /// "synthetic/00000012", in the memory that the key has.
  void nameSample(std::string &key) const {
    char digits[20];
    char *end = std::to_chars(digits, digits + sizeof digits, current.ordinal).ptr;
    auto length = static_cast<size_t>(end - digits);
    key.assign("synthetic/");
    key.append(length < 8 ? 8 - length : 0, '0').append(digits, length);
  }

  void drawSizes() {
    for (size_t s = 0; s < values.size(); ++s) {
      const SymbolSpec &symbol = options.symbols[s];
      Draws draws(options.seed, current.ordinal, streamOf("size:", symbol.name));
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
                      current.ordinal, field.name, marks, others * (length ? most : 1),
                      options.symbols[static_cast<size_t>(field.marks.front().symbol)].name, field.name));
    *length = needed;
    return {};
  }

  void layOut(Sample &sample) {
    sample.fields.resize(options.fields.size());
    size_t total = 0;
    auto padded = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
    for (size_t i = 0; i < sample.fields.size(); ++i) {
      const FieldSpec &spec = options.fields[i];
      SampleField &field = sample.fields[i];
      field.dims = {};
      for (const DimSpec &dim : spec.dims)
        field.dims.append(dim.isFixed() ? dim.size : values[static_cast<size_t>(dim.symbol)]);
      field.dtype = isFloat(spec.dtype) ? DType::F32 : spec.dtype == DType::Bool ? DType::Bool : DType::I64;
      field.present = !spec.ownPositions;
      if (!field.present)
        field.dims = {};
      total += padded(static_cast<size_t>(field.dims.elements()) * byteSize(field.dtype));
    }
    largest = std::max(largest, total);
    std::span<std::byte> storage = sample.storage.resize(total, largest);
    for (SampleField &field : sample.fields) {
      size_t bytes = static_cast<size_t>(field.dims.elements()) * byteSize(field.dtype);
      field.bytes = storage.first(bytes);
      storage = storage.subspan(padded(bytes));
    }
  }

  void fillField(const FieldSpec &spec, SampleField &field) {
    auto *start = const_cast<std::byte *>(field.bytes.data()); // It is this sample's own storage.
    auto count = static_cast<size_t>(field.dims.elements());
    Draws draws(options.seed, current.ordinal, streamOf("field:", spec.name));
    if (field.dtype == DType::F32)
      fillFloats(draws, {reinterpret_cast<float *>(start), count});
    else if (field.dtype == DType::Bool)
      std::fill_n(reinterpret_cast<bool *>(start), count, spec.marks.empty());
    else if (spec.indexLimit > 0)
      fillIntegers(draws, std::max<int64_t>(spec.indexLimit - marksBelow(spec), 1),
                   {reinterpret_cast<int64_t *>(start), count});
    else
      std::fill_n(reinterpret_cast<int64_t *>(start), count, int64_t{1});
    if (field.dtype == DType::I64)
      placeMarks(spec, reinterpret_cast<int64_t *>(start), count);
    else if (field.dtype == DType::Bool)
      std::fill_n(reinterpret_cast<bool *>(start), marksOf(spec), true);
  }

  /// How many of the values that are drawn from are marks.
  static int64_t marksBelow(const FieldSpec &spec) {
    return std::count_if(spec.marks.begin(), spec.marks.end(),
                         [&](const Mark &mark) { return mark.value >= 0 && mark.value < spec.indexLimit; });
  }

  /// The marked elements come first; the others step over the marks' values, which come in ascending order.
  void placeMarks(const FieldSpec &spec, int64_t *start, size_t count) {
    for (size_t i = 0; i < count; ++i)
      for (const Mark &mark : spec.marks)
        start[i] += start[i] >= mark.value && mark.value >= 0;
    for (const Mark &mark : spec.marks)
      start = std::fill_n(start, mark.perRow * values[static_cast<size_t>(mark.symbol)], mark.value);
  }

  SyntheticOptions options;
  std::vector<Distribution> sizes; ///< One per symbol.
  std::vector<int64_t> values;     ///< Of the current sample, one per symbol.
  size_t largest = 0;              ///< Bytes of the largest sample so far.
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
  return std::unique_ptr<SampleReader>(std::make_unique<SyntheticReader>(std::move(options), std::move(sizes)));
}

} // namespace maestro::data
