// Walking broadcast operands: dims that can be walked as one are merged, and what remains is a loop
// over rows in which each operand either advances or repeats one element.
#pragma once

#include "kernels/shape.h"

namespace maestro::kernels::cpu {

/// N operands broadcast to one shape. The innermost stride of each operand is 1 or 0.
template <int N> class Broadcast {
public:
  Broadcast(std::span<const int64_t> shape, const std::array<const TensorType *, N> &operands) {
    std::array<Dims, N> given{};
    for (int k = 0; k < N; ++k) {
      Dims dense = denseStrides(operands[k]->shape());
      size_t lead = shape.size() - static_cast<size_t>(operands[k]->rank);
      for (int i = 0; i < operands[k]->rank; ++i)
        given[k][lead + i] = operands[k]->dims[i] == 1 ? 0 : dense[i];
    }
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != 1)
        append(shape[i], given, i);
    if (rank == 0)
      dims[rank++] = 1;
  }

  int64_t inner() const { return dims[rank - 1]; }
  bool advances(int k) const { return strides[k][rank - 1] != 0; }

  /// Calls visit(first result element, offsets of the operands, count) for the rows' parts that
  /// cover result elements [begin, end).
  template <typename Visit> void forEach(int64_t begin, int64_t end, Visit visit) const {
    int64_t width = inner();
    while (begin < end) {
      int64_t row = begin / width, column = begin % width;
      int64_t count = std::min(width - column, end - begin);
      std::array<int64_t, N> offsets;
      for (int k = 0; k < N; ++k)
        offsets[k] = column * strides[k][rank - 1];
      for (int i = rank - 2; i >= 0; row /= dims[i--])
        for (int k = 0; k < N; ++k)
          offsets[k] += row % dims[i] * strides[k][i];
      visit(begin, offsets, count);
      begin += count;
    }
  }

private:
  void append(int64_t size, const std::array<Dims, N> &given, size_t i) {
    bool merges = rank > 0;
    for (int k = 0; k < N && merges; ++k)
      merges = strides[k][rank - 1] == given[k][i] * size;
    int place = merges ? rank - 1 : rank++;
    dims[place] = merges ? dims[place] * size : size;
    for (int k = 0; k < N; ++k)
      strides[k][place] = given[k][i];
  }

  int rank = 0;
  Dims dims{};
  std::array<Dims, N> strides{};
};

} // namespace maestro::kernels::cpu
