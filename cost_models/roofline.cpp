#include "cost_models/roofline.h"

#include <algorithm>

namespace maestro::cost_models {

DeviceRates cpuRates(int threads) {
  DeviceRates rates;
  rates.flopsPerSecond = 100e9 * threads;
  rates.bytesPerSecond = rates.streamBytesPerSecond = 8e9 * threads;
  return rates;
}

double rooflineSeconds(double flops, double bytes, const DeviceRates &rates) {
  return std::max(flops / rates.flopsPerSecond, bytes / rates.bytesPerSecond);
}

} // namespace maestro::cost_models
