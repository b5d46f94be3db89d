#include "cost_models/roofline.h"

#include <algorithm>

namespace maestro::cost_models {

DeviceRates cpuRates(int threads) {
  DeviceRates rates;
  rates.arithmetic = FlopsPerSecond(100e9 * threads);
  rates.operands = rates.stream = BytesPerSecond(8e9 * threads);
  return rates;
}

Seconds rooflineSeconds(Flops flops, Bytes bytes, const DeviceRates &rates) {
  return std::max(flops / rates.arithmetic, bytes / rates.operands);
}

} // namespace maestro::cost_models
