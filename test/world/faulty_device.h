// A device between which and the others lies a bad network: what it tells them may be lost, told twice, or damaged.
#pragma once

#include "executor/device/device.h"

#include <memory>

namespace maestro::executor::test {

/// In per cent of the messages.
struct Faults {
  uint32_t drops = 0, duplicates = 0, damagedHeaders = 0, staleEpochs = 0;
  uint64_t seed = 1;
};

std::unique_ptr<Device> createFaultyDevice(std::unique_ptr<Device> inner, const Faults &faults, uint32_t rank);

} // namespace maestro::executor::test
