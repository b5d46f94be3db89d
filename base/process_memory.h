// What the kernel says of this process's memory.
#pragma once

#include <cstdint>

namespace maestro {

/// Largest resident size so far (VmHWM), in bytes; 0 where it is not told. Allocates nothing.
uint64_t peakResidentBytes();

} // namespace maestro
