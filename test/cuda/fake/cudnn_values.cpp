#include "test/cuda/fake/cudnn_values.h"

#include "base/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace maestro::cuda::fake {
namespace {

using Values = std::vector<float>;

int64_t offsetOf(const Dims4 &index, const Dims4 &strides) {
  int64_t offset = 0;
  for (size_t d = 0; d < 4; ++d)
    offset += index[d] * strides[d];
  return offset;
}
Dims4 denseStrides(const Dims4 &dims) { return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1}; }

template <typename Visit> void forEach(const Dims4 &dims, Visit visit) {
  for (int64_t a = 0; a < dims[0]; ++a)
    for (int64_t b = 0; b < dims[1]; ++b)
      for (int64_t c = 0; c < dims[2]; ++c)
        for (int64_t d = 0; d < dims[3]; ++d)
          visit(Dims4{a, b, c, d});
}

/// The element of `small` that an index of `large` means: dims are equal, 1, or groups of neighbours share one.
int64_t shared(const Dims4 &index, const Dims4 &large, const Dims4 &small) {
  Dims4 own;
  for (size_t d = 0; d < 4; ++d)
    own[d] = index[d] / (large[d] / small[d]);
  return offsetOf(own, denseStrides(small));
}
bool shares(const Dims4 &large, const Dims4 &small) {
  return std::ranges::equal(large, small, [](int64_t l, int64_t s) { return s > 0 && l % s == 0; });
}

float rounded(float value, cudnnDataType_t type) {
  return type == CUDNN_DATA_BFLOAT16 ? static_cast<float>(BFloat16(value)) : value;
}

Values load(const Tensor &tensor, const void *data) {
  Values values;
  values.reserve(static_cast<size_t>(tensor.elements()));
  forEach(tensor.dims, [&](const Dims4 &index) {
    int64_t at = offsetOf(index, tensor.strides);
    values.push_back(tensor.type == CUDNN_DATA_BFLOAT16 ? static_cast<float>(static_cast<const BFloat16 *>(data)[at])
                     : tensor.type == CUDNN_DATA_INT32  ? static_cast<float>(static_cast<const int32_t *>(data)[at])
                                                        : static_cast<const float *>(data)[at]);
  });
  return values;
}

void store(const Tensor &tensor, void *data, const Values &values) {
  size_t next = 0;
  forEach(tensor.dims, [&](const Dims4 &index) {
    int64_t at = offsetOf(index, tensor.strides);
    if (tensor.type == CUDNN_DATA_BFLOAT16)
      static_cast<BFloat16 *>(data)[at] = BFloat16(values[next++]);
    else
      static_cast<float *>(data)[at] = values[next++];
  });
}

float pointwise(int mode, float x, float b, float t) {
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_EXP:
    return std::exp(x);
  case CUDNN_POINTWISE_LOG:
    return std::log(x);
  case CUDNN_POINTWISE_TANH_FWD:
    return std::tanh(x);
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return t != 0 ? x : b;
  case CUDNN_POINTWISE_IDENTITY:
    return x;
  default:
    return std::numeric_limits<float>::quiet_NaN();
  }
}

Values compute(const Operation &operation, const std::vector<Tensor> &tensors, const std::vector<Values> &values) {
  const Tensor &result = tensors[operation.result], &x = tensors[operation.operands[0]];
  const Values &xs = values[operation.operands[0]];
  Values made(static_cast<size_t>(result.elements()));
  auto at = [](int64_t i) { return static_cast<size_t>(i); };
  if (operation.kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    const Tensor &b = tensors[operation.operands[1]];
    const Values &bs = values[operation.operands[1]];
    forEach(result.dims, [&](const Dims4 &index) {
      double sum = 0;
      Dims4 batch{result.dims[0], result.dims[1], 1, 1}, outer{index[0], index[1], 0, 0};
      int64_t firstA = shared(outer, batch, {x.dims[0], x.dims[1], 1, 1}) * x.dims[2] * x.dims[3];
      int64_t firstB = shared(outer, batch, {b.dims[0], b.dims[1], 1, 1}) * b.dims[2] * b.dims[3];
      for (int64_t k = 0; k < x.dims[3]; ++k)
        sum +=
            static_cast<double>(xs[at(firstA + index[2] * x.dims[3] + k)]) * bs[at(firstB + k * b.dims[3] + index[3])];
      made[at(offsetOf(index, denseStrides(result.dims)))] = static_cast<float>(sum);
    });
  } else if (operation.kind == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    bool adds = operation.mode == CUDNN_REDUCE_TENSOR_ADD;
    std::vector<double> sums(made.size(), adds ? 0 : -std::numeric_limits<double>::infinity());
    forEach(x.dims, [&](const Dims4 &index) {
      double value = xs[at(offsetOf(index, denseStrides(x.dims)))];
      double &sum = sums[at(shared(index, x.dims, result.dims))];
      sum = adds ? sum + value : std::max(sum, value);
    });
    std::ranges::transform(sums, made.begin(), [](double sum) { return static_cast<float>(sum); });
  } else if (operation.kind == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) { // Only the last two dims exchanged.
    forEach(x.dims, [&](const Dims4 &index) {
      Dims4 turned{index[0], index[1], index[3], index[2]};
      made[at(offsetOf(turned, denseStrides(result.dims)))] = xs[at(offsetOf(index, denseStrides(x.dims)))];
    });
  } else {
    forEach(result.dims, [&](const Dims4 &index) {
      float &value = made[at(offsetOf(index, denseStrides(result.dims)))];
      if (operation.mode == CUDNN_POINTWISE_GEN_INDEX) {
        value = static_cast<float>(index[static_cast<size_t>(operation.axis)]);
        return;
      }
      float operands[3] = {};
      for (size_t i = 0; i < operation.operands.size(); ++i)
        operands[i] =
            values[operation.operands[i]][at(shared(index, result.dims, tensors[operation.operands[i]].dims))];
      value = pointwise(operation.mode, operands[0], operands[1], operands[2]);
    });
  }
  for (float &value : made)
    value = rounded(value, result.type);
  return made;
}

/// Empty, or what is wrong with an operation's shapes and types.
std::string faultOf(const Operation &operation, const std::vector<Tensor> &tensors) {
  const Tensor &result = tensors[operation.result], &x = tensors[operation.operands[0]];
  switch (operation.kind) {
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
    const Tensor &b = tensors[operation.operands[1]];
    if (x.type != CUDNN_DATA_BFLOAT16 && !(x.type == CUDNN_DATA_FLOAT && x.isVirtual))
      return "a product of what is not bf16";
    if (b.type != CUDNN_DATA_BFLOAT16)
      return "a product with what is not bf16";
    if (x.dims[3] != b.dims[2] || result.dims[2] != x.dims[2] || result.dims[3] != b.dims[3] ||
        !shares({result.dims[0], result.dims[1], 1, 1}, {x.dims[0], x.dims[1], 1, 1}) ||
        !shares({result.dims[0], result.dims[1], 1, 1}, {b.dims[0], b.dims[1], 1, 1}))
      return "a product of shapes that do not agree";
    return "";
  }
  case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
    if (result.dims != Dims4{x.dims[0], x.dims[1], x.dims[3], x.dims[2]} ||
        result.strides != Dims4{x.strides[0], x.strides[1], x.strides[3], x.strides[2]})
      return "a reshape that does not exchange the last two dims";
    return "";
  case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
    return shares(x.dims, result.dims) ? "" : "a reduction to dims that do not divide";
  default:
    for (size_t operand : operation.operands)
      if (!shares(result.dims, tensors[operand].dims))
        return "operands that do not broadcast to the result";
    return "";
  }
}

} // namespace

std::string Program::fault() const {
  std::vector<bool> known(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    known[i] = !tensors[i].isVirtual;
    bool isRow = !tensors[i].isVirtual && tensors[i].type == CUDNN_DATA_BFLOAT16;
    if (isRow && tensors[i].strides[3] != 1 && tensors[i].strides[2] != 1)
      return "rows that are not contiguous";
    if (isRow && tensors[i].alignment < 16)
      return "rows of less than 16 bytes' alignment";
  }
  for (const Operation &operation : operations) {
    for (size_t operand : operation.operands)
      if (!known[operand])
        return "an operand that nothing has computed";
    if (std::string fault = faultOf(operation, tensors); !fault.empty())
      return fault;
    known[operation.result] = true;
  }
  return "";
}

void Program::run(const std::vector<void *> &pointers) const {
  std::vector<Values> values(tensors.size());
  std::vector<bool> isResult(tensors.size());
  for (const Operation &operation : operations)
    isResult[operation.result] = true;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].isVirtual && !isResult[i])
      values[i] = load(tensors[i], pointers[i]);
  for (const Operation &operation : operations) {
    values[operation.result] = compute(operation, tensors, values);
    if (!tensors[operation.result].isVirtual)
      store(tensors[operation.result], pointers[operation.result], values[operation.result]);
  }
}

} // namespace maestro::cuda::fake
