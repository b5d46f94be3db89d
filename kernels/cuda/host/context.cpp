// The registers that a called function must keep, pushed on one stack and popped from the other.
#include "kernels/cuda/host/context.h"

#include <cstdint>

#if defined(__x86_64__)
asm(R"(
.text
.globl maestroSwitchContext
.type maestroSwitchContext, @function
.p2align 4
maestroSwitchContext:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size maestroSwitchContext, . - maestroSwitchContext
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl maestroSwitchContext
.type maestroSwitchContext, %function
.p2align 4
maestroSwitchContext:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x2, sp
  str x2, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size maestroSwitchContext, . - maestroSwitchContext
)");
#else
#error "kernels/cuda/host switches contexts on x86-64 and aarch64 only"
#endif

namespace maestro::kernels::cuda::host {

Context makeContext(void *stack, size_t bytes, void (*entry)()) {
  uintptr_t top = (reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t{15};
#if defined(__x86_64__)
  uintptr_t *slots = reinterpret_cast<uintptr_t *>(top) - 8; // Six registers, where to return to, and a null caller.
  for (int i = 0; i < 6; ++i)
    slots[i] = 0;
  slots[6] = reinterpret_cast<uintptr_t>(entry);
  slots[7] = 0;
#else
  uintptr_t *slots = reinterpret_cast<uintptr_t *>(top) - 20;
  for (int i = 0; i < 20; ++i)
    slots[i] = 0;
  slots[11] = reinterpret_cast<uintptr_t>(entry); // x30
#endif
  return slots;
}

} // namespace maestro::kernels::cuda::host
