// Batcher::write: a field's rows from the samples' arrays, padded on the right.
#include "executor/data/batcher.h"

#include "base/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace maestro::data {
namespace {

void fillPattern(std::span<std::byte> target, std::span<const std::byte> pattern) {
  bool isUniform = std::all_of(pattern.begin(), pattern.end(), [&](std::byte b) { return b == pattern[0]; });
  if (isUniform) {
    std::memset(target.data(), std::to_integer<int>(pattern[0]), target.size());
    return;
  }
  for (size_t at = 0; at < target.size(); at += pattern.size())
    std::memcpy(target.data() + at, pattern.data(), pattern.size());
}

/// Copies a dense box into a larger dense one at `start`, run by run: copyRun(to, from, elements),
/// with element indices, returns false to stop.
template <typename CopyRun> bool copyBox(const Dims &box, const Dims &whole, const Dims &start, CopyRun copyRun) {
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
size_t firstOutside(const std::byte *values, size_t count, int64_t limit, const std::optional<int64_t> &ignore) {
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

Status Batcher::write(size_t field, std::span<const Sample *const> samples, std::span<const int64_t> combined,
                      std::span<std::byte> target) const {
  Dims dims = shape(field, combined);
  size_t needed = bytes(field, combined);
  if (target.size() != needed)
    return Status::internal(fmt::format("field '{}' of shape {} is {} bytes, its buffer {}", fieldSpecs[field].name,
                                        toString(dims), needed, target.size()));
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
    if (array.bytes.size() != array.byteCount())
      return Status::internal(fmt::format("{}: the values of field '{}' are used and were not read", sample->describe(),
                                          fieldSpecs[field].name));
    MAESTRO_TRY(writeArray(*sample, field, dims, row, target));
    row += dimsOf(*sample, field)[sumDims[field]];
  }
  return {};
}

/// A dim of one measured sample, as measure() says.
int64_t Batcher::sizeIn(const Sample &sample, const DimSpec &dim) const {
  if (dim.isFixed())
    return dim.size;
  for (size_t f = 0; f < fieldSpecs.size(); ++f) {
    if (fieldSpecs[f].ownPositions)
      continue;
    Dims dims = dimsOf(sample, f);
    for (int d = 0; d < dims.rank; ++d)
      if (fieldSpecs[f].dims[static_cast<size_t>(d)].symbol == dim.symbol && counts(dims, f, d))
        return dims[d];
  }
  return 0;
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
      fillPattern(target.subspan(static_cast<size_t>(to) * bytes, static_cast<size_t>(run) * bytes),
                  {one.data(), bytes});
      return true;
    });
  }
  return {};
}

Status Batcher::writeArray(const Sample &sample, size_t f, const Dims &shape, int64_t row,
                           std::span<std::byte> target) const {
  const FieldSpec &spec = fieldSpecs[f];
  const SampleField &array = sample.fields[f];
  Dims box = dimsOf(sample, f);
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
  std::string value = valueText(array.dtype, array.bytes.data() + static_cast<size_t>(at) * fromBytes);
  std::string where = fmt::format("{}: field '{}' holds {} at position {}", sample.describe(), spec.name, value,
                                  positionOf(array.dims, at));
  if (badValue >= 0)
    return Status::invalidInput(fmt::format("{}, which the model's {} cannot hold", where, name(spec.dtype)));
  std::string ignored = spec.ignoreIndex ? fmt::format(" and not the ignored {}", *spec.ignoreIndex) : "",
              remedy = !value.starts_with('-')
                           ? fmt::format("the model knows {}: is it made for another vocabulary, or other classes?",
                                         spec.indexLimit)
                       : spec.ignoreIndex ? fmt::format("write {} where none counts", *spec.ignoreIndex)
                                          : "write an id that padding may have";
  return Status::invalidInput(fmt::format("{}, outside [0, {}){}; {}", where, spec.indexLimit, ignored, remedy));
}

} // namespace maestro::data
