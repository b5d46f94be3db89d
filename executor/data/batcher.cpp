#include "executor/data/batcher.h"

#include "base/convert.h"
#include "base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace maestro::data {
namespace {

/// "[batch, seq, 3]", for messages; without the dim `left` when that is not -1.
std::string describeDims(const FieldSpec &field, std::span<const SymbolSpec> symbols, int left = -1) {
  std::string text;
  for (size_t d = 0; d < field.dims.size(); ++d) {
    if (static_cast<int>(d) == left)
      continue;
    const DimSpec &dim = field.dims[d];
    text += text.empty() ? "" : ", ";
    text += dim.isFixed() ? fmt::to_string(dim.size) : symbols[static_cast<size_t>(dim.symbol)].name;
  }
  return "[" + text + "]";
}

Status encodePad(const FieldSpec &field, std::array<std::byte, 8> &pad) {
  bool isExact;
  if (isFloat(field.dtype)) {
    isExact = convertElements(DType::F64, &field.pad, field.dtype, pad.data(), 1) == 1;
  } else {
    bool inRange = std::abs(field.pad) < 0x1p63 && std::nearbyint(field.pad) == field.pad;
    int64_t whole = inRange ? static_cast<int64_t>(field.pad) : 0;
    isExact = inRange && convertElements(DType::I64, &whole, field.dtype, pad.data(), 1) == 1;
  }
  if (!isExact)
    return Status::invalidInput(
        fmt::format("field '{}': pad {} does not fit its element type {}", field.name, field.pad, name(field.dtype)));
  return {};
}

} // namespace

Batcher::Batcher(std::vector<SymbolSpec> symbols, std::vector<FieldSpec> fields)
    : symbolSpecs(std::move(symbols)), fieldSpecs(std::move(fields)), pads(fieldSpecs.size()),
      conversionSaid(new std::atomic<bool>[fieldSpecs.size()]()) {}

Result<std::unique_ptr<Batcher>> Batcher::create(std::vector<SymbolSpec> symbols, std::vector<FieldSpec> fields) {
  std::unique_ptr<Batcher> batcher(new Batcher(std::move(symbols), std::move(fields)));
  MAESTRO_TRY(batcher->checkSpecs());
  return batcher;
}

Status Batcher::checkSpecs() {
  for (const SymbolSpec &symbol : symbolSpecs)
    if (symbol.multipleOf < 1 || symbol.sampleMax < 0 || symbol.sampleMax > (int64_t{1} << 40))
      return Status::invalidInput(fmt::format("dims.{}: max {} (0 to 2^40) or multiple_of {} (from 1) is out of range",
                                              symbol.name, symbol.sampleMax, symbol.multipleOf));
  for (size_t f = 0; f < fieldSpecs.size(); ++f) {
    const FieldSpec &field = fieldSpecs[f];
    if (field.dims.size() > Dims::kMaxRank)
      return Status::invalidInput(fmt::format("field '{}' has {} dims; at most {} are supported", field.name,
                                              field.dims.size(), Dims::kMaxRank));
    int sumDim = -1, sums = 0;
    for (size_t d = 0; d < field.dims.size(); ++d) {
      const DimSpec &dim = field.dims[d];
      if (dim.symbol >= static_cast<int>(symbolSpecs.size()) || (dim.isFixed() && dim.size < 0))
        return Status::invalidInput(fmt::format("field '{}': dim {} has no size", field.name, d));
      if (!dim.isFixed() && symbolSpecs[static_cast<size_t>(dim.symbol)].combine == Combine::Sum)
        sumDim = static_cast<int>(d), ++sums;
    }
    if (sums != 1)
      return Status::invalidInput(
          fmt::format("field '{}' {} has {} dims that combine by sum; exactly one must, to tell samples apart "
                      "(dims.<name>.combine)",
                      field.name, describeDims(field, symbolSpecs), sums));
    sumDims.push_back(sumDim);
    MAESTRO_TRY(encodePad(field, pads[f]));
  }
  return {};
}

Status Batcher::measure(const Sample &sample, std::span<int64_t> values) const {
  std::fill(values.begin(), values.end(), int64_t{-1});
  for (size_t f = 0; f < fieldSpecs.size(); ++f)
    if (!fieldSpecs[f].ownPositions)
      MAESTRO_TRY(measureField(sample, f, values));
  std::replace(values.begin(), values.end(), int64_t{-1}, int64_t{0});
  return {};
}

/// A field's dims in a sample, its rows among them; 0 of each where the sample lacks it.
Dims Batcher::dimsOf(const Sample &sample, size_t f) const {
  auto rank = static_cast<int>(fieldSpecs[f].dims.size());
  const SampleField &field = sample.fields[f];
  return field.present ? withRows(field.dims, rank, sumDims[f]) : Dims{.rank = rank};
}

/// Whether a field has a say in the symbol of its dim `d`: without rows, only in the rows'.
bool Batcher::counts(const Dims &dims, size_t f, int d) const { return d == sumDims[f] || dims[sumDims[f]] > 0; }

Status Batcher::measureField(const Sample &sample, size_t f, std::span<int64_t> values) const {
  const FieldSpec &spec = fieldSpecs[f];
  if (sample.fields[f].present) {
    MAESTRO_TRY(checkElementType(sample, f));
    MAESTRO_TRY(checkShape(sample, f));
  } else if (!spec.optional) {
    return Status::invalidInput(fmt::format("{} lacks field '{}'", sample.describe(), spec.name));
  }
  Dims dims = dimsOf(sample, f);
  for (int d = 0; d < dims.rank; ++d) {
    const DimSpec &dim = spec.dims[static_cast<size_t>(d)];
    if (dim.isFixed() || !counts(dims, f, d))
      continue;
    MAESTRO_TRY(checkBound(sample, f, d, dims[d]));
    int64_t &value = values[static_cast<size_t>(dim.symbol)];
    if (value >= 0 && value != dims[d])
      return disagreement(sample, f, d, value);
    value = dims[d];
  }
  return {};
}

/// Rank and fixed dims of a field that the sample has.
Status Batcher::checkShape(const Sample &sample, size_t f) const {
  const FieldSpec &spec = fieldSpecs[f];
  const Dims &have = sample.fields[f].dims;
  auto rank = static_cast<int>(spec.dims.size());
  if (have.rank != rank && have.rank != rank - 1)
    return Status::invalidInput(fmt::format("{}: field '{}' has shape {}, expected {} or {}", sample.describe(),
                                            spec.name, toString(have), describeDims(spec, symbolSpecs),
                                            describeDims(spec, symbolSpecs, sumDims[f])));
  Dims dims = dimsOf(sample, f);
  for (int d = 0; d < rank; ++d)
    if (const DimSpec &dim = spec.dims[static_cast<size_t>(d)]; dim.isFixed() && dims[d] != dim.size)
      return Status::invalidInput(
          fmt::format("{}: field '{}' has shape {}, expected {} (dim {} must be {}, as the graph was exported)",
                      sample.describe(), spec.name, toString(have), describeDims(spec, symbolSpecs), d, dim.size));
  return {};
}

Status Batcher::checkBound(const Sample &sample, size_t f, int d, int64_t size) const {
  const FieldSpec &spec = fieldSpecs[f];
  const SymbolSpec &symbol = symbolSpecs[static_cast<size_t>(spec.dims[static_cast<size_t>(d)].symbol)];
  if (size <= symbol.sampleMax)
    return {};
  return Status::invalidInput(
      fmt::format("{}: field '{}' has {} {} in dim '{}', above its bound of {}; raise dims.{}.max in the "
                  "workload, or shorten the sample",
                  sample.describe(), spec.name, size, d == sumDims[f] ? "rows" : "positions", symbol.name,
                  symbol.sampleMax, symbol.name));
}

/// What is said of a field whose dim `d` has not the size that its symbol has so far: the field and
/// dim that gave this size come first.
Status Batcher::disagreement(const Sample &sample, size_t f, int d, int64_t size) const {
  const FieldSpec &spec = fieldSpecs[f];
  int symbol = spec.dims[static_cast<size_t>(d)].symbol;
  std::string_view unit = d == sumDims[f] ? "rows" : "positions";
  std::string other;
  for (size_t o = 0; o <= f && other.empty(); ++o) {
    Dims dims = dimsOf(sample, o);
    for (int e = 0; e < dims.rank && other.empty() && !fieldSpecs[o].ownPositions; ++e)
      if (fieldSpecs[o].dims[static_cast<size_t>(e)].symbol == symbol && counts(dims, o, e))
        other = o == f ? fmt::format("its dim {}", e) : fmt::format("field '{}'", fieldSpecs[o].name);
  }
  return Status::invalidInput(
      fmt::format("{}: field '{}' has {} {} in dim '{}', but {} has {}. Within a sample all that share a dim "
                  "have the same size in it: correct the data, or give the dim of one field another name "
                  "(inputs.<field>.shape in the workload, dynamic_shapes of the export)",
                  sample.describe(), spec.name, dimsOf(sample, f)[d], unit,
                  symbolSpecs[static_cast<size_t>(symbol)].name, other, size));
}

Status Batcher::checkElementType(const Sample &sample, size_t f) const {
  const FieldSpec &spec = fieldSpecs[f];
  DType have = sample.fields[f].dtype;
  Conversion kind = conversionKind(have, spec.dtype);
  if (kind == Conversion::Refused)
    return Status::invalidInput(fmt::format("{}: field '{}' holds {}, which cannot become the {} that the model reads",
                                            sample.describe(), spec.name, name(have), name(spec.dtype)));
  if (kind == Conversion::Rounding && !conversionSaid[f].exchange(true))
    logInfo(fmt::format("field '{}' is rounded from {} to {}", spec.name, name(have), name(spec.dtype)));
  if (have == DType::U8 && isFloat(spec.dtype) && !conversionSaid[f].exchange(true)) // Images, mostly.
    logInfo(fmt::format("field '{}' holds u8: the model reads numbers from 0 to 255", spec.name));
  return {};
}

void Batcher::combine(std::span<const int64_t> values, std::span<int64_t> combined) const {
  size_t count = symbolSpecs.size();
  std::fill(combined.begin(), combined.end(), int64_t{0});
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t &value = combined[i % count];
    value = symbolSpecs[i % count].combine == Combine::Sum ? value + values[i] : std::max(value, values[i]);
  }
  for (size_t s = 0; s < count; ++s)
    if (int64_t multiple = symbolSpecs[s].multipleOf; symbolSpecs[s].combine == Combine::Max)
      combined[s] = (combined[s] + multiple - 1) / multiple * multiple;
}

void Batcher::combine(std::span<const int64_t> values, std::span<const uint32_t> members,
                      std::span<int64_t> combined) const {
  size_t count = symbolSpecs.size();
  for (size_t s = 0; s < count; ++s) {
    int64_t value = 0;
    for (uint32_t member : members) {
      int64_t one = values[member * count + s];
      value = symbolSpecs[s].combine == Combine::Sum ? value + one : std::max(value, one);
    }
    int64_t multiple = symbolSpecs[s].combine == Combine::Max ? symbolSpecs[s].multipleOf : 1;
    combined[s] = (value + multiple - 1) / multiple * multiple;
  }
}

Dims Batcher::shape(size_t field, std::span<const int64_t> combined) const {
  Dims dims;
  for (const DimSpec &dim : fieldSpecs[field].dims)
    dims.append(dim.isFixed() ? dim.size : combined[static_cast<size_t>(dim.symbol)]);
  return dims;
}

size_t Batcher::bytes(size_t field, std::span<const int64_t> combined) const {
  return static_cast<size_t>(shape(field, combined).elements()) * byteSize(fieldSpecs[field].dtype);
}

} // namespace maestro::data
