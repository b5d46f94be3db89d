// A seeded synthetic data set with the sizes that a workload declares: any sample can be made by
// itself, from seed, ordinal and field name, so that no order of reading changes it.
//
// Floats are standard normal; integers uniform in [0, indexLimit), or 1 where there is no limit (a
// mask that keeps everything); bools are true.
#pragma once

#include "base/status.h"
#include "executor/data/field.h"
#include "executor/data/source.h"

#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace maestro::data {

/// The size of a symbol in a sample, before it is rounded and clipped to the symbol's bounds.
struct Distribution {
  enum class Kind : uint8_t { Constant, Uniform, LogNormal };
  Kind kind = Kind::Constant;
  double a = 0; ///< Constant: the value. Uniform: the least. LogNormal: the median.
  double b = 0; ///< Uniform: the largest (inclusive). LogNormal: sigma of the logarithm.
};

/// Parses "512", "constant(512)", "uniform(16, 512)" or "lognormal(512, 0.6)".
Result<Distribution> parseDistribution(std::string_view text);

struct NamedDistribution {
  std::string symbol;
  Distribution distribution;
};
/// Parses "seq=lognormal(512, 0.6); images=uniform(0, 2)", as the plan's fields carry it. Empty:
/// none.
Result<std::vector<NamedDistribution>> parseSyntheticSizes(std::string_view text);

struct SyntheticOptions {
  std::vector<SymbolSpec> symbols;
  std::vector<FieldSpec> fields;
  /// Symbols that are not named here are at their bound (Max) or one row (Sum).
  std::vector<NamedDistribution> sizes;
  uint64_t samples = 1024; ///< Of one pass.
  uint64_t seed = 0;
};

/// Samples come with their Sum dim. Keys are "synthetic/00000012".
Result<std::unique_ptr<SampleReader>> openSynthetic(SyntheticOptions options);

} // namespace maestro::data
