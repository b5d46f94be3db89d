// Whether a call makes sense: the number, presence and shapes of its operands and results, and the
// attributes that address memory. Libraries ask before they prepare, so that kernels need no checks of
// their own and a damaged plan ends in a message instead of a wild access.
#pragma once

#include "kernels/kernel.h"

namespace maestro::kernels {

/// Ok for unknown names: whether a library has the kernel is its own answer.
/// Otherwise InvalidInput naming kernel, operand, shape and what was expected.
Status checkSignature(const CallSpec &spec);

/// Whether a result may lie exactly over this operand, of the same type: the kernel reads nothing of it again that it
/// has written. False for unknown names. The operators' canReuse() (ir/nn) promises no more.
bool mayOverwrite(std::string_view kernel, size_t operand);

} // namespace maestro::kernels
