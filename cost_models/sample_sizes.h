// Sizes of samples for the simulator, drawn from what a workload declares; seeded.
#pragma once

#include "cost_models/simulator.h"

#include <cstdint>
#include <span>
#include <vector>

namespace maestro::cost_models {

/// The size of one dim in a sample, before it is rounded and clipped to [least, most].
struct SizeDistribution {
  enum class Kind : uint8_t { Constant, Uniform, Normal, LogNormal } kind = Kind::Constant;
  double a = 0; ///< The constant; the least; the mean; the median.
  double b = 0; ///< Unused; the largest; the standard deviation; sigma of the logarithm.
  int64_t least = 0, most = 1;
};

/// `steps` steps of `samples` samples each, a distribution a dim. A sample's numbers depend on seed, its position and
/// the dim's index alone.
std::vector<SampleSizes> drawSizes(std::span<const SizeDistribution> dims, uint64_t steps, uint64_t samples,
                                   uint64_t seed);

/// One step that is as the mean of many: each dim has every 64th size of 64 times as many drawn, in order, dealt to the
/// samples at random (Latin hypercube sampling: McKay, Beckman and Conover, Technometrics 21(2), 1979). A step of a few
/// hundred drawn samples may have a tenth more or less of what few samples have much of.
SampleSizes typicalStep(std::span<const SizeDistribution> dims, uint64_t samples, uint64_t seed);

} // namespace maestro::cost_models
