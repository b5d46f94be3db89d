// Switching between stacks: what setjmp would do if it could, in a few instructions and without a system call.
#pragma once

#include <cstddef>

namespace maestro::kernels::cuda::host {

/// A suspended computation: the stack pointer under which its registers lie.
using Context = void *;

/// Suspends the caller into `from` and goes on with `to`.
extern "C" void maestroSwitchContext(Context *from, Context to);

/// A context that calls `entry`, which never returns, on the given stack.
Context makeContext(void *stack, size_t bytes, void (*entry)());

} // namespace maestro::kernels::cuda::host
