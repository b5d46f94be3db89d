// libfabric, loaded when it is needed: maestro-run starts where it is not installed.
#pragma once

#include "base/status.h"

#include <rdma/fabric.h>

namespace maestro::transport {

/// What is not reached through an object's own table of operations; symbols as libfabric 1.17's headers name them.
struct LibfabricFunctions {
  decltype(&::fi_getinfo) getinfo;
  decltype(&::fi_dupinfo) dupinfo;
  decltype(&::fi_freeinfo) freeinfo;
  decltype(&::fi_fabric) fabric;
  decltype(&::fi_strerror) strerror;
};

/// The library, loaded once for the process. Unavailable, with what to install, where there is none.
Result<const LibfabricFunctions *> loadLibfabric();

} // namespace maestro::transport
