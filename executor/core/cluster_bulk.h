// Where the bulk of ranks lies that others write over a network: told when that is known, where devices may have it.
#pragma once

#include "executor/core/world.h"
#include "transport/control/control.h"
#include "transport/network/network.h"

#include <cstdint>
#include <set>

namespace maestro::executor {

/// Processes whose ranks write to the bulk of ranks that are here over a network, and back.
std::set<uint32_t> farBulkPeers(const World &world, const transport::Control &control);

/// By all processes, before anybody writes there. What was not placed on a device is in the host's memory. `network`
/// may be null where this process has nobody to reach by it.
Status tellBulk(const World &world, transport::Control &control, transport::Network *network);

} // namespace maestro::executor
