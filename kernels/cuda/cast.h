// Conversion between element types, and adding with conversion, as a launch of any sequence.
#pragma once

#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/sequence.h"

namespace maestro::kernels::cuda {

/// The kernel that converts one type into the other, and the elements that one of its threads converts.
struct CastKernel {
  const char *name;
  int64_t perThread;
};
CastKernel castKernel(DType from, DType to, bool adds);

/// y = x, or y += x; `from(operands)` and `to(operands)` are their addresses.
template <typename From, typename To>
Status addCast(Sequence &sequence, DType fromType, DType toType, int64_t count, bool adds, From from, To to) {
  CastKernel kernel = castKernel(fromType, toType, adds);
  CastParams params{{nullptr, fromType}, {nullptr, toType}, count, adds, false};
  return sequence.add(kernel.name, blocksFor((count + kernel.perThread - 1) / kernel.perThread), params,
                      [from, to](CastParams &p, const Operands &operands) {
                        p.x.data = address(from(operands));
                        p.y.data = to(operands);
                        p.packed = aligned(p.x.data) && aligned(p.y.data);
                      });
}

} // namespace maestro::kernels::cuda
