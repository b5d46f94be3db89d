// What maestro-profile measures of a device, and the rates that follow from it.
#pragma once

#include "cost_models/roofline.h"

#include <string>
#include <vector>

namespace maestro::cost_models {

/// One kernel at one shape.
struct Measurement {
  std::string what;        ///< "matmul f32 1024x512x512"
  int threads = 1;
  double flops = 0, bytes = 0; ///< As the operator's cost says.
  double seconds = 0;      ///< While all cores did the same.
};

/// The rates of a device that has so many threads.
struct ProfiledRates {
  int threads = 1;
  DeviceRates rates;
};

struct DeviceProfile {
  std::string kind = "cpu";
  std::string name;                ///< Of the processor, for people.
  std::vector<ProfiledRates> rates; ///< Ascending threads.
  std::vector<Measurement> measured; ///< What they follow from; for people.
};

/// The two rates under which flops ÷ one + bytes ÷ the other + callSeconds comes closest to the measurements of so many
/// threads: least squares of the logarithms of the ratios. `rates` keeps the rest.
void fitRates(const std::vector<Measurement> &measured, int threads, DeviceRates &rates);

/// For a device of so many threads: as measured, or in proportion from the nearest that was.
DeviceRates ratesFor(const DeviceProfile &profile, int threads);

/// device.yaml.
std::string toYaml(const DeviceProfile &profile);

} // namespace maestro::cost_models
