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
      : key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, ordinal(ordinal),
        stream(stream) {}
  PhiloxCounter block(uint32_t index) const {
    return philox4x32(
        {index, static_cast<uint32_t>(ordinal), static_cast<uint32_t>(ordinal >> 32), stream}, key);
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
    return distribution.a + std::floor((distribution.b - distribution.a + 1) *
                                       (static_cast<double>(bits[0]) * 0x1p-32));
  case Distribution::Kind::Normal:
    return distribution.a + distribution.b * static_cast<double>(normalPair(bits[0], bits[1])[0]);
  case Distribution::Kind::LogNormal:
    return distribution.a *
           std::exp(distribution.b * static_cast<double>(normalPair(bits[0], bits[1])[0]));
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
      : options(std::move(options)), sizes(std::move(sizes)), values(this->options.symbols.size()) {
  }

  Status seek(const DataPosition &position) override {
    if (position.ordinal >= options.samples)
      return Status::invalidInput(
          fmt::format("the data position is sample {}, but the synthetic data has {}",
                      position.ordinal, options.samples));
    current = position;
    return {};
  }

  Status read(Sample &sample) override {
    nameSample(sample.key);
    sample.shard = {};
    sample.ordinal = current.ordinal;
    drawSizes();
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
      field.dtype = isFloat(spec.dtype)         ? DType::F32
                    : spec.dtype == DType::Bool ? DType::Bool
                                                : DType::I64;
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
      std::memset(start, 1, count);
    else if (spec.indexLimit > 0)
      fillIntegers(draws, spec.indexLimit, {reinterpret_cast<int64_t *>(start), count});
    else
      std::fill_n(reinterpret_cast<int64_t *>(start), count, int64_t{1});
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
  for (const FieldSpec &field : options.fields)
    if (field.dims.size() > Dims::kMaxRank)
      return Status::invalidInput(fmt::format("field '{}' has {} dims; at most {} are supported",
                                              field.name, field.dims.size(), Dims::kMaxRank));
  return std::unique_ptr<SampleReader>(
      std::make_unique<SyntheticReader>(std::move(options), std::move(sizes)));
}

} // namespace maestro::data
