// For tools that run kernels: how long OpenMP's threads spin.
#pragma once

#include <cstdlib>
#include <unistd.h>

namespace maestro {

/// OpenMP's threads spin while they wait for each other, by default for so long that a machine with other work
/// slows down tenfold. libgomp reads the limit when it is loaded, so the process starts itself once more; call this
/// first in main().
inline void boundSpinning(char **argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT"))
    return;
  ::setenv("GOMP_SPINCOUNT", "10000", 1);
  ::execv("/proc/self/exe", argv); // Where this fails the run is merely less polite.
}

} // namespace maestro
