// The table of one instruction set.
#include "kernels/cpu/loops/tables.h"

namespace maestro::kernels::cpu {
namespace MAESTRO_ISA {

static Loops makeTable() {
  Loops loops{};
  addElementwise(loops);
  addGlu(loops);
  addRows(loops);
  addLosses(loops);
  addAttention(loops);
  addPairedAttention(loops);
  addProducts(loops);
  addRecurrences(loops);
  addUpdates(loops);
  return loops;
}

} // namespace MAESTRO_ISA

#if defined(__AVX512F__)
const Loops *avx512Loops() {
  if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
      !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512bf16"))
    return nullptr;
#else
const Loops *avx2Loops() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return nullptr;
#endif
  static const Loops loops = MAESTRO_ISA::makeTable();
  return &loops;
}

} // namespace maestro::kernels::cpu
