// Assembles the samples of a micro-batch into the arrays that a model reads. Plain data in and out:
// no device, no file, no memory of its own after construction.
//
//   sample sizes ──combine──▶ symbol values of the micro-batch ──▶ shape of each field
//   sample arrays ──write───▶ rows of the field, padded on the right
//
// Symbols: all fields that use one agree in it within a sample, or the sample is refused; across
// samples the fields of a Max symbol are padded alike. A field that the sample lacks has 0 rows, and
// one without rows has no say in its other dims.
#pragma once

#include "base/status.h"
#include "executor/data/field.h"
#include "executor/data/sample.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace maestro::data {

class Batcher {
public:
  /// Fails on specs that cannot be assembled: a field without exactly one Sum dim, an unknown
  /// symbol, a negative size, a pad that the element type cannot hold.
  static Result<std::unique_ptr<Batcher>> create(std::vector<SymbolSpec> symbols, std::vector<FieldSpec> fields);

  /// Writes each symbol's value in one sample (0 where nothing uses it): the step's manifest.
  /// Checks the sample's ranks, dims, bounds and element types, not its values. `sample.fields` are
  /// in the order of the fields given to create(). An array may come without its Sum dim; it is
  /// then one row.
  Status measure(const Sample &sample, std::span<int64_t> values) const;

  /// Symbol values of a micro-batch from those of its samples, which lie one after the other in
  /// `values`.
  void combine(std::span<const int64_t> values, std::span<int64_t> combined) const;
  /// The same over chosen samples: `values` is a manifest of all, `members` the samples' indices.
  void combine(std::span<const int64_t> values, std::span<const uint32_t> members, std::span<int64_t> combined) const;

  /// The shape of a field in a micro-batch, and its size.
  Dims shape(size_t field, std::span<const int64_t> combined) const;
  size_t bytes(size_t field, std::span<const int64_t> combined) const;

  /// Writes a field of measured samples into `target`, bytes() long; every byte is written. Fails
  /// on values: an index out of range, or a number that the field's element type cannot hold.
  Status write(size_t field, std::span<const Sample *const> samples, std::span<const int64_t> combined,
               std::span<std::byte> target) const;

  std::span<const SymbolSpec> symbols() const { return symbolSpecs; }
  std::span<const FieldSpec> fields() const { return fieldSpecs; }

private:
  Batcher(std::vector<SymbolSpec> symbols, std::vector<FieldSpec> fields);
  Status checkSpecs();
  Dims dimsOf(const Sample &sample, size_t field) const;
  bool counts(const Dims &dims, size_t field, int dim) const;
  Status measureField(const Sample &sample, size_t field, std::span<int64_t> values) const;
  Status checkShape(const Sample &sample, size_t field) const;
  Status checkBound(const Sample &sample, size_t field, int dim, int64_t size) const;
  Status disagreement(const Sample &sample, size_t field, int dim, int64_t size) const;
  int64_t sizeIn(const Sample &sample, const DimSpec &dim) const;
  Status writeOwnPositions(size_t field, std::span<const Sample *const> samples, const Dims &shape,
                           std::span<std::byte> target) const;
  Status checkElementType(const Sample &sample, size_t field) const;
  Status writeArray(const Sample &sample, size_t field, const Dims &shape, int64_t row,
                    std::span<std::byte> target) const;

  std::vector<SymbolSpec> symbolSpecs;
  std::vector<FieldSpec> fieldSpecs;
  std::vector<int> sumDims;                                    ///< Of each field: its one Sum dim.
  std::vector<std::array<std::byte, 8>> pads;                  ///< Of each field, in its element type.
  mutable std::unique_ptr<std::atomic<bool>[]> conversionSaid; ///< Of each field: the note was given.
};

} // namespace maestro::data
