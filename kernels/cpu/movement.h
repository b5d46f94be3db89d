// A copy between two strided views of the same shape.
#pragma once

#include "kernels/shape.h"

namespace maestro::kernels::cpu {

class StridedCopy {
public:
  /// Strides in elements; a source stride of 0 repeats, negative strides walk backwards.
  StridedCopy(std::span<const int64_t> shape, const Dims &toStrides, const Dims &fromStrides, int64_t elementBytes);

  /// `toBase` and `fromBase` are the addresses of element 0 of each view.
  void run(void *toBase, const void *fromBase, int threads) const;

private:
  void chooseInner();
  template <typename T> void copyBlock(T *target, const T *source) const;
  template <typename T> void copyBlocks(void *toBase, const void *fromBase, int64_t begin, int64_t end) const;

  int64_t bytes, count;
  int64_t outer = 1;
  int rank = 0, innerDims = 1;
  Dims dims{}, to{}, from{};
};

} // namespace maestro::kernels::cpu
