// --restarts: a process that only watches over the one that runs, and starts it again where the machine or a peer
// failed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace maestro {

/// Calls `run` in a process of its own, and again, up to `most` times, where that ends with status 2 or by a signal.
/// Returns the last one's exit status. Signals that ask this process to stop go to it; one that stays stopped is ended.
/// Before there are threads.
int runWithRestarts(uint32_t most, const std::function<int(bool isRestart)> &run);

} // namespace maestro
