// What maestro-profile measures of a device, and the device that planning makes of it.
#pragma once

#include "cost_models/machine.h"

#include <string>
#include <string_view>
#include <vector>

namespace maestro::cost_models {

/// A device of so many threads, while all cores work.
struct ProfiledDevice {
  int threads = 1;
  DeviceRates rates; ///< For kernels without a curve.
  KernelCurves curves;
};

struct DeviceProfile {
  std::string kind = "cpu";
  std::string name;                                  ///< Of the processor or GPU, for people.
  std::vector<ProfiledDevice> devices;               ///< Ascending threads; of a GPU one, of one thread.
  Bf16Products bf16Products = Bf16Products::Widened; ///< Of the processor.
  /// Of a GPU: all of its memory, what of it is kept, and how many work on a kernel.
  uint64_t memoryBytes = 0;
  std::vector<KeptMemory> kept;
  uint32_t multiprocessors = 0;
};

/// A CPU device of so many threads as built in.
DeviceModel builtInCpu(int threads);
/// As measured, or in proportion from the nearest number of threads that was; built in where nothing was. Its memory is
/// not set.
DeviceModel deviceFor(const DeviceProfile &profile, int threads);

/// A GPU as measured.
DeviceModel gpuFor(const DeviceProfile &profile);

/// device.yaml. Lines of calls are the last of it.
std::string toYaml(const DeviceProfile &profile);
/// One of them; whether a line is.
std::string callsLine(int threads, const std::string &name, const std::vector<CallSample> &samples);
bool isCallsLine(std::string_view line);

} // namespace maestro::cost_models
