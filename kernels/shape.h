// Index arithmetic on small shapes, shared by the libraries.
#pragma once

#include "kernels/kernel.h"

namespace maestro::kernels {

using Dims = std::array<int64_t, TensorType::kMaxRank>;

inline int64_t product(std::span<const int64_t> dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

/// Elements between neighbours along each dim of a dense tensor.
inline Dims denseStrides(std::span<const int64_t> shape) {
  Dims strides{};
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

/// A tensor seen as [outer, axis, inner].
struct AxisView {
  int64_t outer = 1, axis = 1, inner = 1;
  AxisView(std::span<const int64_t> shape, int64_t axisIndex)
      : outer(product(shape.first(axisIndex))), axis(shape[axisIndex]), inner(product(shape.subspan(axisIndex + 1))) {}
};

/// Maps a row-major index in `shape` to an offset by strides of its own.
class IndexMap {
public:
  IndexMap(std::span<const int64_t> shape, const Dims &strides, int64_t offset = 0)
      : rank(static_cast<int>(shape.size())), strides(strides), offset(offset) {
    for (int i = 0; i < rank; ++i)
      dims[i] = shape[i];
  }

  int64_t operator()(int64_t index) const {
    int64_t position = offset;
    for (int i = rank; i-- > 0;) {
      position += index % dims[i] * strides[i];
      index /= dims[i];
    }
    return position;
  }

private:
  int rank;
  Dims dims{};
  Dims strides;
  int64_t offset;
};

/// Where element i of the broadcast shape `to` lies in `from` (numpy's rule: dims align at the end).
inline IndexMap broadcastMap(std::span<const int64_t> from, std::span<const int64_t> to) {
  Dims dense = denseStrides(from), strides{};
  size_t lead = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    strides[lead + i] = from[i] == 1 ? 0 : dense[i];
  return IndexMap(to, strides);
}

} // namespace maestro::kernels
