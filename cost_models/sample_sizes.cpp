#include "cost_models/sample_sizes.h"

#include "base/philox.h"

#include <algorithm>
#include <cmath>

namespace maestro::cost_models {
namespace {

int64_t draw(const SizeDistribution &dim, const PhiloxCounter &bits) {
  auto normal = [&] { return static_cast<double>(normalPair(bits[0], bits[1])[0]); };
  double value = dim.a;
  switch (dim.kind) {
  case SizeDistribution::Kind::Constant:
    break;
  case SizeDistribution::Kind::Uniform:
    value = dim.a + std::floor((dim.b - dim.a + 1) * (static_cast<double>(bits[0]) * 0x1p-32));
    break;
  case SizeDistribution::Kind::Normal:
    value = dim.a + dim.b * normal();
    break;
  case SizeDistribution::Kind::LogNormal:
    value = dim.a * std::exp(dim.b * normal());
    break;
  }
  double clipped = std::clamp(std::round(value), static_cast<double>(dim.least), static_cast<double>(dim.most));
  return static_cast<int64_t>(clipped);
}

} // namespace

std::vector<SampleSizes> drawSizes(std::span<const SizeDistribution> dims, uint64_t steps, uint64_t samples,
                                   uint64_t seed) {
  PhiloxKey key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  std::vector<SampleSizes> result(steps);
  uint64_t ordinal = 0;
  for (SampleSizes &step : result) {
    step.reserve(samples * dims.size());
    for (uint64_t sample = 0; sample < samples; ++sample, ++ordinal)
      for (uint32_t dim = 0; dim < dims.size(); ++dim)
        step.push_back(draw(
            dims[dim],
            philox4x32({dim, static_cast<uint32_t>(ordinal), static_cast<uint32_t>(ordinal >> 32), 0x517e5u}, key)));
  }
  return result;
}

SampleSizes typicalStep(std::span<const SizeDistribution> dims, uint64_t samples, uint64_t seed) {
  constexpr uint64_t kTimes = 64;
  SampleSizes many = drawSizes(dims, 1, kTimes * samples, seed).front(), step(samples * dims.size());
  PhiloxKey key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (size_t d = 0; d < dims.size(); ++d) {
    std::vector<int64_t> sizes;
    for (size_t i = d; i < many.size(); i += dims.size())
      sizes.push_back(many[i]);
    std::sort(sizes.begin(), sizes.end());
    for (uint64_t i = 0; i < samples; ++i)
      sizes[i] = sizes[i * kTimes + kTimes / 2];
    for (uint64_t left = samples; left > 0; --left) { // Fisher and Yates' shuffle.
      uint64_t drawn = philox4x32({static_cast<uint32_t>(d), static_cast<uint32_t>(left),
                                   static_cast<uint32_t>(left >> 32), 0xdea1u},
                                  key)[0] %
                       left;
      std::swap(sizes[drawn], sizes[left - 1]);
      step[(left - 1) * dims.size() + d] = sizes[left - 1];
    }
  }
  return step;
}

} // namespace maestro::cost_models
