// Which processes go on with a job whose machines have not all come back.
#pragma once

#include "transport/control/control.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace maestro::transport {

struct Seating {
  std::vector<uint32_t> processes; ///< In the order in which they are numbered from now on; none: the job waits.
  uint32_t lostMachines = 0;
};

/// The processes of the machines of which all have come, where as many may be lost as have not. Process 0 must be among
/// them. `hosts`: by process, where it is; empty: it has not come.
Seating seatWholeMachines(const SpareMachines &spares, std::span<const std::string> hosts);

} // namespace maestro::transport
