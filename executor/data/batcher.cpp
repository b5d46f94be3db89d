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
std::string describeDims(const FieldSpec &field, std::span<const SymbolSpec> symbols,
                         int left = -1) {
  std::string text;
  for (size_t d = 0; d < field.dims.size(); ++d) {
    if (static_cast<int>(d) == left)
      continue;
    const DimSpec &dim = field.dims[d];
    text += text.empty() ? "" : ", ";
    text +=
        dim.isFixed() ? fmt::to_string(dim.size) : symbols[static_cast<size_t>(dim.symbol)].name;
  }
  return "[" + text + "]";
}

/// A sample's array with its Sum dim, which it may have come without.
Dims withRows(const Dims &dims, size_t rank, int sumDim) {
  if (static_cast<size_t>(dims.rank) == rank)
    return dims;
  Dims full;
  for (int d = 0, from = 0; d < static_cast<int>(rank); ++d)
    full.append(d == sumDim ? 1 : dims[from++]);
  return full;
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
    return Status::invalidInput(fmt::format("field '{}': pad {} does not fit its element type {}",
                                            field.name, field.pad, name(field.dtype)));
  return {};
}

void fillPattern(std::span<std::byte> target, std::span<const std::byte> pattern) {
  bool isUniform =
      std::all_of(pattern.begin(), pattern.end(), [&](std::byte b) { return b == pattern[0]; });
  if (isUniform) {
    std::memset(target.data(), std::to_integer<int>(pattern[0]), target.size());
    return;
  }
  for (size_t at = 0; at < target.size(); at += pattern.size())
    std::memcpy(target.data() + at, pattern.data(), pattern.size());
}

/// Copies a dense box into a larger dense one at `start`, run by run: copyRun(to, from, elements),
/// with element indices, returns false to stop.
template <typename CopyRun>
bool copyBox(const Dims &box, const Dims &whole, const Dims &start, CopyRun copyRun) {
  if (box.elements() == 0)
    return true;
  // Trailing dims that fill the whole are one run with the dim before them.
  int runDim = box.rank - 1;
  int64_t run = box.rank ? box[runDim] : 1;
  while (runDim > 0 && box[runDim] == whole[runDim])
    run *= box[--runDim];
  std::array<int64_t, Dims::kMaxRank> strides{}, at{};
  int64_t stride = 1, to = 0;
  for (int d = box.rank - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = stride;
    to += start[d] * stride;
    stride *= whole[d];
  }
  for (int64_t from = 0, end = box.elements(); from < end; from += run) {
    if (!copyRun(to, from, run))
      return false;
    for (int d = runDim - 1; d >= 0; --d) {
      auto i = static_cast<size_t>(d);
      to += strides[i];
      if (++at[i] < box[d])
        break;
      to -= strides[i] * box[d];
      at[i] = 0;
    }
  }
  return true;
}

/// "[2, 7]": where element `index` of a dense array lies.
std::string positionOf(const Dims &dims, int64_t index) {
  Dims position = dims;
  for (int d = dims.rank - 1; d >= 0; --d) {
    position.sizes[static_cast<size_t>(d)] = index % dims[d];
    index /= dims[d];
  }
  return toString(position);
}

template <typename T>
size_t firstOutside(const std::byte *values, size_t count, int64_t limit,
                    const std::optional<int64_t> &ignore) {
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, values + i * sizeof(T), sizeof(T));
    auto wide = static_cast<int64_t>(value);
    if ((wide < 0 || wide >= limit) && !(ignore && wide == *ignore))
      return i;
  }
  return count;
}

/// The first value that is no index below the field's limit; `count` when there is none.
size_t firstBadIndex(const FieldSpec &field, const std::byte *values, size_t count) {
  if (field.indexLimit <= 0 || !isInteger(field.dtype))
    return count;
  switch (byteSize(field.dtype)) {
  case 8:
    return firstOutside<int64_t>(values, count, field.indexLimit, field.ignoreIndex);
  case 4:
    return firstOutside<int32_t>(values, count, field.indexLimit, field.ignoreIndex);
  case 2:
    return firstOutside<int16_t>(values, count, field.indexLimit, field.ignoreIndex);
  default:
    break;
  }
  if (field.dtype == DType::U8)
    return firstOutside<uint8_t>(values, count, field.indexLimit, field.ignoreIndex);
  return firstOutside<int8_t>(values, count, field.indexLimit, field.ignoreIndex);
}

/// A value of any element type as text.
std::string valueText(DType dtype, const std::byte *at) {
  if (isFloat(dtype)) {
    double value = 0;
    convertElements(dtype, at, DType::F64, &value, 1);
    return fmt::to_string(value);
  }
  int64_t value = 0;
  convertElements(dtype, at, DType::I64, &value, 1);
  return fmt::to_string(value);
}
} // namespace

Batcher::Batcher(std::vector<SymbolSpec> symbols, std::vector<FieldSpec> fields)
    : symbolSpecs(std::move(symbols)), fieldSpecs(std::move(fields)), pads(fieldSpecs.size()),
      roundingSaid(new std::atomic<bool>[fieldSpecs.size()]()) {}

Result<std::unique_ptr<Batcher>> Batcher::create(std::vector<SymbolSpec> symbols,
                                                 std::vector<FieldSpec> fields) {
  std::unique_ptr<Batcher> batcher(new Batcher(std::move(symbols), std::move(fields)));
  MAESTRO_TRY(batcher->checkSpecs());
  return batcher;
}

Status Batcher::checkSpecs() {
  for (const SymbolSpec &symbol : symbolSpecs)
    if (symbol.multipleOf < 1 || symbol.sampleMax < 0 || symbol.sampleMax > (int64_t{1} << 40))
      return Status::invalidInput(
          fmt::format("dims.{}: max {} (0 to 2^40) or multiple_of {} (from 1) is out of range",
                      symbol.name, symbol.sampleMax, symbol.multipleOf));
  for (size_t f = 0; f < fieldSpecs.size(); ++f) {
    const FieldSpec &field = fieldSpecs[f];
    if (field.dims.size() > Dims::kMaxRank)
      return Status::invalidInput(fmt::format("field '{}' has {} dims; at most {} are supported",
                                              field.name, field.dims.size(), Dims::kMaxRank));
    int sumDim = -1, sums = 0;
    for (size_t d = 0; d < field.dims.size(); ++d) {
      const DimSpec &dim = field.dims[d];
      if (dim.symbol >= static_cast<int>(symbolSpecs.size()) || (dim.isFixed() && dim.size < 0))
        return Status::invalidInput(fmt::format("field '{}': dim {} has no size", field.name, d));
      if (!dim.isFixed() && symbolSpecs[static_cast<size_t>(dim.symbol)].combine == Combine::Sum)
        sumDim = static_cast<int>(d), ++sums;
    }
    if (sums != 1)
      return Status::invalidInput(fmt::format(
          "field '{}' {} has {} dims that combine by sum; exactly one must, to tell samples apart "
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

Status Batcher::measureField(const Sample &sample, size_t f, std::span<int64_t> values) const {
  const FieldSpec &spec = fieldSpecs[f];
  const SampleField &field = sample.fields[f];
  if (!field.present && !spec.optional)
    return Status::invalidInput(fmt::format("{} lacks field '{}'", sample.describe(), spec.name));
  if (field.present)
    MAESTRO_TRY(checkElementType(sample, f));
  auto rank = static_cast<int>(spec.dims.size());
  if (field.present && field.dims.rank != rank && field.dims.rank != rank - 1)
    return Status::invalidInput(fmt::format("{}: field '{}' has shape {}, expected {} or {}",
                                            sample.describe(), spec.name, toString(field.dims),
                                            describeDims(spec, symbolSpecs),
                                            describeDims(spec, symbolSpecs, sumDims[f])));
  Dims dims =
      field.present ? withRows(field.dims, spec.dims.size(), sumDims[f]) : Dims{.rank = rank};
  for (int d = 0; d < rank; ++d) {
    const DimSpec &dim = spec.dims[static_cast<size_t>(d)];
    bool isSum = d == sumDims[f];
    if (!field.present && !isSum)
      continue;
    if (dim.isFixed()) {
      if (dims[d] != dim.size)
        return Status::invalidInput(fmt::format(
            "{}: field '{}' has shape {}, expected {} (dim {} must be {})", sample.describe(),
            spec.name, toString(field.dims), describeDims(spec, symbolSpecs), d, dim.size));
      continue;
    }
    const SymbolSpec &symbol = symbolSpecs[static_cast<size_t>(dim.symbol)];
    if (dims[d] > symbol.sampleMax)
      return Status::invalidInput(fmt::format("{}: field '{}' has {} {} in dim '{}', above its "
                                              "bound of {}; raise dims.{}.max in the workload, or "
                                              "shorten the sample",
                                              sample.describe(), spec.name, dims[d],
                                              isSum ? "rows" : "positions", symbol.name,
                                              symbol.sampleMax, symbol.name));
    int64_t &value = values[static_cast<size_t>(dim.symbol)];
    if (isSum && value >= 0 && value != dims[d])
      return Status::invalidInput(
          fmt::format("{}: field '{}' has {} rows of '{}', but another field of this sample has {}",
                      sample.describe(), spec.name, dims[d], symbol.name, value));
    value = std::max(value, dims[d]);
  }
  return {};
}

Status Batcher::checkElementType(const Sample &sample, size_t f) const {
  const FieldSpec &spec = fieldSpecs[f];
  DType have = sample.fields[f].dtype;
  Conversion kind = conversionKind(have, spec.dtype);
  if (kind == Conversion::Refused)
    return Status::invalidInput(
        fmt::format("{}: field '{}' holds {}, which cannot become the {} that the model reads",
                    sample.describe(), spec.name, name(have), name(spec.dtype)));
  if (kind == Conversion::Rounding && !roundingSaid[f].exchange(true))
    logInfo(fmt::format("field '{}' is rounded from {} to {}", spec.name, name(have),
                        name(spec.dtype)));
  return {};
}

void Batcher::combine(std::span<const int64_t> values, std::span<int64_t> combined) const {
  size_t count = symbolSpecs.size();
  std::fill(combined.begin(), combined.end(), int64_t{0});
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t &value = combined[i % count];
    value = symbolSpecs[i % count].combine == Combine::Sum ? value + values[i]
                                                           : std::max(value, values[i]);
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

Status Batcher::write(size_t field, std::span<const Sample *const> samples,
                      std::span<const int64_t> combined, std::span<std::byte> target) const {
  Dims dims = shape(field, combined);
  size_t needed = bytes(field, combined);
  if (target.size() != needed)
    return Status::internal(fmt::format("field '{}' of shape {} is {} bytes, its buffer {}",
                                        fieldSpecs[field].name, toString(dims), needed,
                                        target.size()));
  if (fieldSpecs[field].ownPositions)
    return writeOwnPositions(field, samples, dims, target);
  int64_t written = 0;
  for (const Sample *sample : samples)
    written += sample->fields[field].dims.elements() * sample->fields[field].present;
  if (written != dims.elements())
    fillPattern(target, {pads[field].data(), byteSize(fieldSpecs[field].dtype)});
  int64_t row = 0;
  for (const Sample *sample : samples) {
    const SampleField &array = sample->fields[field];
    if (!array.present)
      continue;
    MAESTRO_TRY(writeArray(*sample, field, dims, row, target));
    row += withRows(array.dims, static_cast<size_t>(dims.rank), sumDims[field])[sumDims[field]];
  }
  return {};
}

/// A dim of one measured sample, as measure() says, from the fields that the sample has.
int64_t Batcher::sizeIn(const Sample &sample, const DimSpec &dim) const {
  if (dim.isFixed())
    return dim.size;
  int64_t size = 0;
  for (size_t f = 0; f < fieldSpecs.size(); ++f) {
    const SampleField &field = sample.fields[f];
    if (!field.present || fieldSpecs[f].ownPositions)
      continue;
    Dims dims = withRows(field.dims, fieldSpecs[f].dims.size(), sumDims[f]);
    for (size_t d = 0; d < fieldSpecs[f].dims.size(); ++d)
      if (fieldSpecs[f].dims[d].symbol == dim.symbol)
        size = std::max(size, dims[static_cast<int>(d)]);
  }
  return size;
}

Status Batcher::writeOwnPositions(size_t f, std::span<const Sample *const> samples, const Dims &shape,
                                  std::span<std::byte> target) const {
  const FieldSpec &spec = fieldSpecs[f];
  size_t bytes = byteSize(spec.dtype);
  std::array<std::byte, 8> one{};
  const int64_t value = 1;
  convertElements(DType::I64, &value, spec.dtype, one.data(), 1);
  std::memset(target.data(), 0, target.size());
  int64_t row = 0;
  for (const Sample *sample : samples) {
    Dims box, start{.rank = shape.rank};
    for (const DimSpec &dim : spec.dims)
      box.append(sizeIn(*sample, dim));
    start.sizes[static_cast<size_t>(sumDims[f])] = row;
    row += box[sumDims[f]];
    copyBox(box, shape, start, [&](int64_t to, int64_t, int64_t run) {
      fillPattern(target.subspan(static_cast<size_t>(to) * bytes, static_cast<size_t>(run) * bytes), {one.data(), bytes});
      return true;
    });
  }
  return {};
}

Status Batcher::writeArray(const Sample &sample, size_t f, const Dims &shape, int64_t row,
                           std::span<std::byte> target) const {
  const FieldSpec &spec = fieldSpecs[f];
  const SampleField &array = sample.fields[f];
  Dims box = withRows(array.dims, spec.dims.size(), sumDims[f]);
  Dims start{.rank = box.rank};
  start.sizes[static_cast<size_t>(sumDims[f])] = row;
  size_t fromBytes = byteSize(array.dtype), toBytes = byteSize(spec.dtype);
  int64_t badValue = -1, badIndex = -1;
  bool isGood = copyBox(box, shape, start, [&](int64_t to, int64_t from, int64_t run) {
    std::byte *out = target.data() + static_cast<size_t>(to) * toBytes;
    const std::byte *in = array.bytes.data() + static_cast<size_t>(from) * fromBytes;
    auto count = static_cast<size_t>(run);
    size_t done = convertElements(array.dtype, in, spec.dtype, out, count);
    size_t good = done == count ? firstBadIndex(spec, out, count) : count;
    badValue = done < count ? from + static_cast<int64_t>(done) : -1;
    badIndex = good < count ? from + static_cast<int64_t>(good) : -1;
    return badValue < 0 && badIndex < 0;
  });
  if (isGood)
    return {};
  int64_t at = std::max(badValue, badIndex);
  std::string value =
      valueText(array.dtype, array.bytes.data() + static_cast<size_t>(at) * fromBytes);
  std::string where = fmt::format("{}: field '{}' holds {} at position {}", sample.describe(),
                                  spec.name, value, positionOf(array.dims, at));
  if (badValue >= 0)
    return Status::invalidInput(
        fmt::format("{}, which the model's {} cannot hold", where, name(spec.dtype)));
  return Status::invalidInput(fmt::format(
      "{}, outside [0, {}){}", where, spec.indexLimit,
      spec.ignoreIndex ? fmt::format(" and not the ignored {}", *spec.ignoreIndex) : ""));
}

} // namespace maestro::data
