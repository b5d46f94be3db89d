// The CPU library with loops of one's own choice; tests run every instruction set that the machine has.
#pragma once

#include "kernels/cpu/loops/loops.h"
#include "kernels/kernel.h"

namespace maestro::kernels::cpu {

/// Null loops: everything is the reference library's.
std::unique_ptr<Library> createLibrary(const Loops *loops);

} // namespace maestro::kernels::cpu
