// Products and convolutions of bf16 on processors without instructions for it.
#pragma once

#include "kernels/cpu/prepare.h"

namespace maestro::kernels::cpu {

/// Whether the call has bf16 operands that no kernel here multiplies as they are.
bool mustWiden(const CallSpec &spec);
/// The call in f32, its bf16 operands converted in scratch memory. Results are those of bf16 with sums in f32: widening
/// is exact, and what is narrowed is rounded once, at the end.
PreparedKernel prepareWidened(const CallSpec &spec, const Loops &loops, Prepare prepare);

} // namespace maestro::kernels::cpu
