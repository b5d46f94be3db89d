// What a failed completion usually means, and what to do.
#pragma once

#include <infiniband/verbs.h>

namespace maestro::transport {

/// To follow the status's name.
const char *meaningOf(ibv_wc_status status);

} // namespace maestro::transport
