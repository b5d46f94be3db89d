#include "cost_models/device_rates.h"

namespace maestro::cost_models {

DeviceRates cpuRates(int threads) {
  DeviceRates rates;
  rates.arithmetic = FlopsPerSecond(100e9 * threads);
  rates.arithmeticBf16 = FlopsPerSecond(200e9 * threads);
  rates.operands = rates.stream = BytesPerSecond(8e9 * threads);
  return rates;
}

} // namespace maestro::cost_models
