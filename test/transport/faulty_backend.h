// A backend that behaves as networks do at their worst: messages wait, overtake each other, come twice, vanish, or
// arrive damaged. A message is what lies between two posts of a sequence; its payload lands before its header and
// count, as on one queue pair, and nothing else is in order.
//
// Its receiver is the local one: what is under test is whether the protocol tolerates or notices.
#pragma once

#include "transport/backend.h"
#include "transport/shared_memory.h"

#include <memory>

namespace maestro::transport::test {

struct Faults {
  uint64_t seed = 1;
  bool reorders = true;
  uint32_t mostDelayUs = 50;
  /// One message in so many; 0: none.
  uint32_t duplicates = 0, drops = 0, damagedHeaders = 0, staleEpochs = 0;
};

std::unique_ptr<Backend> createFaultyBackend(SharedMemory &memory, const Abort &abort, const Faults &faults);

} // namespace maestro::transport::test
