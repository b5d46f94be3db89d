// Tensors of the interpreter; see interpreter.h.
#include "test/support/interpreter.h"

#include <cstdlib>
#include <cstring>

namespace maestro::test {
namespace {

/// Calls `function` with a value of the C++ type that stores `dtype`.
template <typename Function> auto withStorage(DType dtype, Function function) {
  switch (dtype) {
  case DType::F32:
    return function(float());
  case DType::F64:
    return function(double());
  case DType::BF16:
  case DType::F16:
    return function(uint16_t());
  case DType::I64:
    return function(int64_t());
  case DType::I32:
    return function(int32_t());
  case DType::I16:
    return function(int16_t());
  case DType::I8:
    return function(int8_t());
  case DType::U8:
  case DType::Bool:
    break;
  }
  return function(uint8_t());
}

} // namespace

Tensor::Tensor(DType dtype, std::span<const int64_t> shape) : tensorType(dtype, shape) {
  constexpr size_t kAlignment = 64;
  size_t size = (tensorType.bytes() + kAlignment) / kAlignment * kAlignment; // Never 0 bytes.
  bytes.reset(static_cast<std::byte *>(std::aligned_alloc(kAlignment, size)), std::free);
  std::memset(bytes.get(), 0, size);
}

double Tensor::at(int64_t index) const {
  return withStorage(tensorType.dtype, [&](auto storage) -> double {
    auto value = reinterpret_cast<const decltype(storage) *>(bytes.get())[index];
    if (tensorType.dtype == DType::F16)
      return halfToFloat(static_cast<uint16_t>(value));
    if (tensorType.dtype != DType::BF16)
      return static_cast<double>(value);
    BFloat16 number;
    number.bits = static_cast<uint16_t>(value);
    return static_cast<float>(number);
  });
}

void Tensor::set(int64_t index, double value) {
  withStorage(tensorType.dtype, [&](auto storage) {
    auto &element = reinterpret_cast<decltype(storage) *>(bytes.get())[index];
    if (tensorType.dtype == DType::F16)
      element = floatToHalf(static_cast<float>(value));
    else if (tensorType.dtype == DType::BF16)
      element = BFloat16(static_cast<float>(value)).bits;
    else if (tensorType.dtype == DType::Bool)
      element = value != 0.0;
    else
      element = static_cast<decltype(storage)>(value);
  });
}

Tensor Tensor::clone() const {
  Tensor copy(tensorType.dtype, tensorType.shape());
  std::memcpy(copy.data(), data(), tensorType.bytes());
  return copy;
}

Tensor Tensor::reshaped(std::span<const int64_t> shape) const {
  Tensor view = *this;
  view.tensorType = kernels::TensorType(tensorType.dtype, shape);
  return view;
}

} // namespace maestro::test
