#include "cost_models/roofline.h"

#include <algorithm>

namespace maestro::cost_models {

DeviceRates cpuRates(int threads) { return {100e9 * threads, 8e9 * threads}; }

double rooflineSeconds(double flops, double bytes, const DeviceRates &rates) {
  return std::max(flops / rates.flopsPerSecond, bytes / rates.bytesPerSecond);
}

} // namespace maestro::cost_models
