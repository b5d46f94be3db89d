// Each file of loops fills its part of the instruction set's table.
#pragma once

#include "kernels/cpu/loops/loops.h"

namespace maestro::kernels::cpu::MAESTRO_ISA {

void addElementwise(Loops &loops);
void addGlu(Loops &loops);
void addRows(Loops &loops);
void addLosses(Loops &loops);
void addAttention(Loops &loops);
void addPairedAttention(Loops &loops); ///< Nothing where there is no product of bf16.
void addProducts(Loops &loops);
void addRecurrences(Loops &loops);
void addUpdates(Loops &loops);

} // namespace maestro::kernels::cpu::MAESTRO_ISA
