// Moving and filling elements as launches of any sequence.
#pragma once

#include "kernels/cuda/movement.h"
#include "kernels/cuda/sequence.h"

namespace maestro::kernels::cuda {

/// "move_4": elements of that many bytes.
inline std::string bySize(const char *stem, DType type) {
  return std::string(stem) + "_" + std::to_string(byteSize(type));
}

/// y[to(i)] = x[from(i)]; `x(operands)` and `y(operands)` are their addresses.
template <typename X, typename Y>
Status addMove(Sequence &sequence, DType type, int64_t count, const Strided<2> &map, X x, Y y) {
  int64_t width = 16 / static_cast<int64_t>(byteSize(type));
  if (!packs(map, width) || map.strides[0][map.rank - 1] != 1 || map.strides[1][map.rank - 1] != 1)
    width = 1;
  MoveParams params{nullptr, nullptr, count, map, static_cast<int32_t>(width), false};
  return sequence.add(bySize("move", type), blocksFor(count / width), params,
                      [x, y](MoveParams &p, const Operands &operands) {
                        p.x = x(operands);
                        p.y = y(operands);
                        p.packed = p.perThread > 1 && aligned(p.x) && aligned(p.y);
                      });
}

template <typename Y> Status addFill(Sequence &sequence, DType type, int64_t count, double value, Y y) {
  return sequence.add("fill_elements", blocksFor(count), FillParams{{nullptr, type}, count, value},
                      [y](FillParams &p, const Operands &operands) { p.y.data = y(operands); });
}

} // namespace maestro::kernels::cuda
