// The library that conformance.cpp judges: each program defines one.
#pragma once

#include "kernels/kernel.h"

namespace maestro::kernels::test {

const Library &subject();

} // namespace maestro::kernels::test
