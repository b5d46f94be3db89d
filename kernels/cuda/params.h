// What the parameters of several families are made of; plain data, the same for nvcc and for the host.
#pragma once

#include "base/dtype.h"

#include <cstdint>

namespace maestro::kernels::cuda {

inline constexpr int kMaxRank = 8;

/// An index in `dims`, row-major, mapped to offsets in N tensors.
template <int N> struct Strided {
  int32_t rank = 0;
  bool narrow = true; ///< Every index fits 32 bits: division is several times faster.
  int64_t dims[kMaxRank] = {};
  int64_t strides[N][kMaxRank] = {};
  int64_t starts[N] = {};
};

/// A tensor whose element type is known at run time only.
struct AnyTensor {
  void *data = nullptr;
  DType dtype = DType::F32;
};

/// A tensor seen as [outer, axis, inner].
struct AxisDims {
  int64_t outer = 1, axis = 1, inner = 1;
};

struct Failure;

/// Where a kernel tells of bad data.
struct Report {
  Failure *failure = nullptr;
  uint32_t call = 0;
};

} // namespace maestro::kernels::cuda
