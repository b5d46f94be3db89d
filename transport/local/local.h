// The local backend: ranks are threads of one process, or processes that it forks, and channels are rings in memory
// that they share. Create it and all channels before the ranks start.
#pragma once

#include "transport/backend.h"
#include "transport/shared_memory.h"

namespace maestro::transport::local {

/// Both must outlive the backend and its channels.
std::unique_ptr<Backend> create(SharedMemory &memory, const Abort &abort);

/// What a channel takes of the shared memory, headers included.
uint64_t channelBytes(const ChannelDescription &description);

} // namespace maestro::transport::local
