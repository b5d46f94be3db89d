// What the fake cuDNN computes: a graph of operations over tensors of four dims, evaluated one operation after the
// other in memory of the host. Obvious, slow, and without knowledge of attention.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace maestro::cuda::fake {

using Dims4 = std::array<int64_t, 4>;

struct Tensor {
  int64_t number = 0;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Dims4 dims{}, strides{};
  int64_t alignment = 1;
  bool isVirtual = false, isConstant = false;

  int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
};

struct Operation {
  cudnnBackendDescriptorType_t kind;
  int mode = 0;     ///< Of a pointwise operation or a reduction.
  int64_t axis = 0; ///< Of places.
  std::vector<size_t> operands;
  size_t result = 0; ///< Tensors of the program.
};

struct Program {
  std::vector<Tensor> tensors;
  std::vector<Operation> operations; ///< In an order in which they can be executed.
  size_t workspace = 0;

  /// Empty, or what the real library refuses, or computes wrongly without a word.
  std::string fault() const;
  /// `pointers`: by tensor; null for virtual ones.
  void run(const std::vector<void *> &pointers) const;
};

} // namespace maestro::cuda::fake
