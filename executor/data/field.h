// What a plan says about the arrays of a sample: fields, and the symbolic dims that they share.
// Plain data; the loader fills it from a plan, tests fill it by hand.
#pragma once

#include "base/dtype.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maestro::data {

/// How a symbol's value in a micro-batch comes from those of its samples. Numbered as in the plan.
enum class Combine : uint8_t {
  Sum = 0, ///< Rows: the sum.
  Max = 1  ///< Padded: the maximum, rounded up to multipleOf.
};

struct SymbolSpec {
  std::string name;
  Combine combine = Combine::Max;
  int64_t sampleMax = 0;  ///< Largest value that one sample may have.
  int64_t multipleOf = 1; ///< Max only; ≥ 1.
};

/// One dim of a field: a fixed size, or a symbol (an index into the symbols).
struct DimSpec {
  int64_t size = 0;
  int symbol = -1; ///< -1: fixed

  static DimSpec fixed(int64_t size) { return {size, -1}; }
  static DimSpec of(int symbol) { return {0, symbol}; }
  bool isFixed() const { return symbol < 0; }
};

/// In synthetic samples: `perRow` elements of this value for each of a sample's rows of `symbol`, and no other.
struct Mark {
  int64_t value = 0;
  int symbol = 0;
  int64_t perRow = 1;
};

/// One array that each sample carries, as the model wants it for a micro-batch. Exactly one dim is
/// a Sum symbol: its rows tell the samples of a micro-batch apart.
struct FieldSpec {
  std::string name;
  DType dtype = DType::F32;
  std::vector<DimSpec> dims;
  double pad = 0;
  int64_t indexLimit = 0; ///< > 0: values must lie in [0, indexLimit) or equal ignoreIndex.
  std::optional<int64_t> ignoreIndex = {};
  bool optional = false;     ///< A sample may lack it: it then adds 0 rows.
  bool ownPositions = false; ///< No reader gives it: 1 at the positions that the sample's other fields have, else 0.
  std::vector<Mark> marks = {};
};

} // namespace maestro::data
