// A seeded synthetic data set with the sizes that a workload declares: any sample can be made by
// itself, from seed, ordinal and field name, so that no order of reading changes it.
//
// Floats are standard normal; integers uniform in [0, indexLimit), or 1 where there is no limit (a
// mask that keeps everything); bools are true. A field with marks has them first, as many as the sample's rows ask for,
// and none elsewhere; it is lengthened to hold them.
#pragma once

#include "base/status.h"
#include "executor/data/field.h"
#include "executor/data/source.h"
#include "executor/data/synthetic_sizes.h"

#include <memory>
#include <span>
#include <vector>

namespace maestro::data {

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
