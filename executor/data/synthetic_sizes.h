// Sizes of synthetic samples, as a workload declares them and a plan's fields carry them: text to distributions.
#pragma once

#include "base/status.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace maestro::data {

/// The size of a symbol in a sample, before it is rounded and clipped to the symbol's bounds.
struct Distribution {
  enum class Kind : uint8_t { Constant, Uniform, Normal, LogNormal };
  Kind kind = Kind::Constant;
  double a = 0; ///< Constant: the value. Uniform: the least. Normal: the mean. LogNormal: the median.
  double b = 0; ///< Uniform: the largest (inclusive). Normal: the deviation. LogNormal: sigma of the logarithm.
};

/// Parses "512", "constant(512)", "uniform(16, 512)", "normal(512, 64)" or "lognormal(512, 0.6)".
Result<Distribution> parseDistribution(std::string_view text);

struct NamedDistribution {
  std::string symbol;
  Distribution distribution;
};
/// Parses "seq=lognormal(512, 0.6); images=uniform(0, 2)", as the plan's fields carry it. Empty:
/// none.
Result<std::vector<NamedDistribution>> parseSyntheticSizes(std::string_view text);

} // namespace maestro::data
