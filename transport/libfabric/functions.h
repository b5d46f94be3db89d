// libfabric, loaded when it is needed: maestro-run starts where it is not installed.
#pragma once

#include "base/status.h"

#include <csignal>
#include <iterator>
#include <rdma/fabric.h>

namespace maestro::transport {

/// Keeps this process's signal handlers: the libraries of some providers (PSM, PSM2) put their own in place as soon as
/// they are loaded, and end the process at a SIGTERM.
class KeptSignals {
public:
  KeptSignals() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      (void)::sigaction(kSignals[i], nullptr, &before[i]);
  }
  ~KeptSignals() {
    for (size_t i = 0; i < std::size(kSignals); ++i)
      (void)::sigaction(kSignals[i], &before[i], nullptr);
  }

private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE, SIGINT, SIGTERM};
  struct sigaction before[std::size(kSignals)];
};

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
